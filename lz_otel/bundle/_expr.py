"""Expressions of PromQL: text with its labels and its precedence. See :mod:`lz_otel.bundle.promql`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lz_otel.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lz_otel.catalogue import Attribute

_DURATION = re.compile(r"(\d+(ms|[smhdwy]))+|\$\w+|\$\{\w+\}")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_VARIABLE = re.compile(r"[a-zA-Z_]\w*")


# --- matchers ---------------------------------------------------------------------------------


class Var(NamedTuple):
    """A Grafana variable as a label value: ``=~"$name"``, or ``="$name"`` when exact."""

    name: str
    exact: bool = False


class Regex(NamedTuple):
    """A regular expression; on a closed list it must match at least one of the values."""

    pattern: str


class Not(NamedTuple):
    """Anything but these."""

    value: str | tuple[str, ...] | Var | Regex


Value = str | tuple[str, ...] | Var | Regex | Not


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def matcher(label: str, value: Value) -> str:
    """Return one matcher as text; a tuple is an alternation of literals."""
    negative = isinstance(value, Not)
    inner = value.value if isinstance(value, Not) else value
    if isinstance(inner, Var):
        exact, text = inner.exact, f"${inner.name}"
    elif isinstance(inner, Regex):
        exact, text = False, _escape(inner.pattern)
    elif isinstance(inner, str):
        exact, text = True, _escape(inner)
    else:
        exact, text = False, _escape("|".join(re.escape(v).replace(r"\-", "-") for v in inner))
    sign = ("!=" if negative else "=") if exact else ("!~" if negative else "=~")
    return f'{label}{sign}"{text}"'


def check_value(metric: str, attribute: Attribute, value: Value) -> None:
    """Refuse literals that a closed list does not hold."""
    inner = value.value if isinstance(value, Not) else value
    if not attribute.values or isinstance(inner, Var):
        return
    allowed = (*attribute.values, "")
    if isinstance(inner, Regex):
        if not any(re.fullmatch(inner.pattern, v) for v in attribute.values):
            raise CatalogueError(f"{metric}: {inner.pattern!r} matches no value of {attribute.label}")
        return
    for literal in (inner,) if isinstance(inner, str) else inner:
        if literal not in allowed:
            raise CatalogueError(
                f"{metric}: {literal!r} is not a value of {attribute.label}: {', '.join(attribute.values)}"
            )


def _window(text: str) -> str:
    if not _DURATION.fullmatch(text):
        raise CatalogueError(f"{text!r} is no duration such as 5m, and no variable such as $__rate_interval")
    return text


# --- expressions ------------------------------------------------------------------------------

_PRECEDENCE = {"or": 1, "and": 2, "unless": 2, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
_COMPARISONS = (">", "<", ">=", "<=", "==", "!=")
_ATOM = 9


@dataclass(frozen=True)
class Expr:
    """An instant vector, or a scalar, as text with its labels.

    Attributes:
        text: PromQL.
        labels: names its series can carry.
        level: precedence of the outermost operator, for brackets.
    """

    text: str
    labels: frozenset[str] = frozenset()
    level: int = _ATOM

    def __str__(self) -> str:
        return self.text

    # arithmetic and comparison

    def op(
        self,
        operator: str,
        other: Expr | float,
        *,
        on: Iterable[str] | None = None,
        ignoring: Iterable[str] | None = None,
        group_left: Iterable[str] | None = None,
        as_bool: bool = False,
    ) -> Expr:
        """Return ``self operator other`` with vector matching.

        Raises:
            CatalogueError: an unknown operator, or a label of ``on`` that a side does not carry.
        """
        level = 3 if operator in _COMPARISONS else _PRECEDENCE.get(operator, 0)
        if not level:
            raise CatalogueError(f"{operator!r} is no operator of PromQL")
        right = other if isinstance(other, Expr) else literal(other)
        words = [operator]
        if as_bool:
            words.append("bool")
        if on is not None:
            names = tuple(on)
            for name in names:
                if name not in self.labels or name not in right.labels:
                    raise CatalogueError(f"on ({name}): one side of {operator!r} does not carry that label")
            words.append(f"on ({', '.join(names)})")
        if ignoring is not None:
            words.append(f"ignoring ({', '.join(ignoring)})")
        if group_left is not None:
            words.append(f"group_left ({', '.join(group_left)})")
        left_text = f"({self.text})" if self.level < level else self.text
        right_text = f"({right.text})" if right.level <= level else right.text
        labels = self.labels or right.labels
        if operator == "or":
            labels = self.labels | right.labels
        if group_left is not None:
            labels = labels | frozenset(group_left)
        return Expr(f"{left_text} {' '.join(words)} {right_text}", labels, level)

    def __add__(self, other: Expr | float) -> Expr:
        return self.op("+", other)

    def __sub__(self, other: Expr | float) -> Expr:
        return self.op("-", other)

    def __mul__(self, other: Expr | float) -> Expr:
        return self.op("*", other)

    def __rmul__(self, other: float) -> Expr:
        return literal(other).op("*", self)

    def __rsub__(self, other: float) -> Expr:
        return literal(other).op("-", self)

    def __truediv__(self, other: Expr | float) -> Expr:
        return self.op("/", other)

    def above(self, limit: Expr | float, *, as_bool: bool = False) -> Expr:
        """Return the series greater than the limit."""
        return self.op(">", limit, as_bool=as_bool)

    def below(self, limit: Expr | float, *, as_bool: bool = False) -> Expr:
        """Return the series smaller than the limit."""
        return self.op("<", limit, as_bool=as_bool)

    def equal(self, limit: Expr | float, *, as_bool: bool = False) -> Expr:
        """Return the series equal to the limit."""
        return self.op("==", limit, as_bool=as_bool)

    def and_(self, other: Expr, on: Iterable[str] | None = None) -> Expr:
        """Return the series of the left that the right also has."""
        return self.op("and", other, on=on)

    def or_(self, other: Expr) -> Expr:
        """Return the series of the left, and those of the right that the left lacks."""
        return self.op("or", other)

    def unless(self, other: Expr, on: Iterable[str] | None = None) -> Expr:
        """Return the series of the left that the right lacks."""
        return self.op("unless", other, on=on)

    def or_zero(self) -> Expr:
        """Add ``or vector(0)``: for sums without labels only, else it adds a stray series."""
        if self.labels:
            raise CatalogueError(f"or vector(0) beside the labels {sorted(self.labels)} adds a series")
        return self.or_(vector(0))

    # aggregation

    def aggregate(self, operator: str, by: Iterable[str] = (), parameter: str = "") -> Expr:
        """Return ``operator by (labels) (parameter, self)``.

        Raises:
            CatalogueError: a label that this expression does not carry.
        """
        names = tuple(by)
        for name in names:
            if name not in self.labels:
                raise CatalogueError(f"{operator} by ({name}): not among the labels {sorted(self.labels)}")
        head = f"{operator} by ({', '.join(names)}) (" if names else f"{operator}("
        body = f"{parameter}, {self.text}" if parameter else self.text
        kept = self.labels if operator in ("topk", "bottomk") else frozenset(names)
        return Expr(f"{head}{body})", kept)

    def sum(self, *by: str) -> Expr:
        """Return the sum over everything but these labels."""
        return self.aggregate("sum", by)

    def max(self, *by: str) -> Expr:
        """Return the greatest value per label set."""
        return self.aggregate("max", by)

    def min(self, *by: str) -> Expr:
        """Return the smallest value per label set."""
        return self.aggregate("min", by)

    def count(self, *by: str) -> Expr:
        """Return the number of series per label set."""
        return self.aggregate("count", by)

    def group(self, *by: str) -> Expr:
        """Return 1 per label set."""
        return self.aggregate("group", by)

    def topk(self, n: int, *by: str) -> Expr:
        """Return the n greatest series (per label set)."""
        return self.aggregate("topk", by, str(n))

    def bottomk(self, n: int, *by: str) -> Expr:
        """Return the n smallest series (per label set)."""
        return self.aggregate("bottomk", by, str(n))

    # functions

    def call(self, function: str, *after: str) -> Expr:
        """Return ``function(self, after...)``; the labels stay."""
        return Expr(f"{function}({', '.join((self.text, *after))})", self.labels)

    def clamp_min(self, least: float) -> Expr:
        """Return the same, and the least where it is below."""
        return self.call("clamp_min", text_of(least))

    def label_replace(self, target: str, replacement: str, source: str, pattern: str) -> Expr:
        """Set label ``target`` to the replacement where ``source`` matches the pattern.

        An empty source is allowed: it sets a constant.
        """
        if source and source not in self.labels:
            raise CatalogueError(f"label_replace: {source!r} not among the labels {sorted(self.labels)}")
        quoted = (f'"{_escape(part)}"' for part in (target, replacement, source, pattern))
        return Expr(f"label_replace({', '.join((self.text, *quoted))})", self.labels | {target})

    def label_join(self, target: str, separator: str, *sources: str) -> Expr:
        """Set label ``target`` to the values of the sources, joined."""
        for source in sources:
            if source not in self.labels:
                raise CatalogueError(f"label_join: {source!r} not among the labels {sorted(self.labels)}")
        quoted = (f'"{_escape(part)}"' for part in (target, separator, *sources))
        return Expr(f"label_join({', '.join((self.text, *quoted))})", self.labels | {target})

    def over_time(self, function: str, window: str, offset: str = "", step: str = "") -> Expr:
        """Return ``function(self[window:step] offset o)``, as ``max_over_time``; plain series need none."""
        plain = self.level == _ATOM and re.fullmatch(r"[\w:]+(\{.*\})?", self.text)
        inner = self.text if plain else f"({self.text})"
        frame = _window(window) if plain and not step else f"{_window(window)}:{step}"
        return Expr(f"{function}({inner}[{frame}]{_offset(offset)})", self.labels)

    def at_offset(self, offset: str) -> Expr:
        """Return a plain series as it was some time ago."""
        return Expr(f"{self.text}{_offset(offset)}", self.labels)


def _offset(offset: str) -> str:
    return f" offset {_window(offset)}" if offset else ""


def text_of(value: float) -> str:
    """Return a number without noise: 0.005, 14.4, 100."""
    return f"{value:.10g}"


def literal(value: float) -> Expr:
    """Return a literal."""
    return Expr(text_of(value), frozenset(), _ATOM if value >= 0 else 4)


def variable(name: str) -> Expr:
    """Return a Grafana variable that holds a number: ``$slo``."""
    if not _VARIABLE.fullmatch(name):
        raise CatalogueError(f"{name!r} is no name of a variable")
    return Expr(f"${name}")


def vector(value: float) -> Expr:
    """Return a vector of one series without labels."""
    return Expr(f"vector({text_of(value)})")


def ratio(part: Expr, whole: Expr, *, zero: Expr | None = None) -> Expr:
    """Return part of a whole: 0 where there is a whole and no part, nothing where the whole is 0.

    Args:
        part: numerator; its series need not exist.
        whole: denominator, with the same labels.
        zero: series that exist whenever the ratio should be 0 (default: the denominator).
    """
    filled = part.or_(0 * (whole if zero is None else zero))
    return filled.op("/", whole.above(0))


def quantile_of(q: float, buckets: Expr, by: Iterable[str] = ()) -> Expr:
    """Return ``histogram_quantile`` over bucket rates that are there already, summed by these labels."""
    names = tuple(by)
    return Expr(f"histogram_quantile({text_of(q)}, {buckets.sum('le', *names).text})", frozenset(names))


@dataclass(frozen=True)
class Range:
    """A counter or a part of a histogram: only ``rate`` and ``increase`` make something of it."""

    text: str
    labels: frozenset[str]

    def rate(self, window: str, offset: str = "") -> Expr:
        """Return the increase per second over the window."""
        return Expr(f"rate({self.text}[{_window(window)}]{_offset(offset)})", self.labels)

    def increase(self, window: str, offset: str = "") -> Expr:
        """Return the increase over the window."""
        return Expr(f"increase({self.text}[{_window(window)}]{_offset(offset)})", self.labels)

    def running(self, *by: str) -> Expr:
        """Return the sum of the raw counters that is a counter again, for recording under another name.

        Raises:
            CatalogueError: without ``instance`` a restart of one process would look like a reset of all.
        """
        if "instance" not in by:
            raise CatalogueError(
                "a recorded counter keeps the label 'instance', or its rate jumps at a restart"
            )
        return Expr(self.text, self.labels).sum(*by)

    def series(self) -> Expr:
        """Return the raw series: to count them or to see that one exists, never for its value."""
        return Expr(self.text, self.labels)
