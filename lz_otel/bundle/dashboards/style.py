"""What every dashboard looks like: colours with one meaning each, units, sizes.

A colour stands for the same thing on all dashboards. Red is failure and nothing else; where no target exists
a number is blue. Percentiles of one thing are shades of its hue, darker for higher ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel import mechanisms
from lz_otel.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Thresholds: (from this value on, colour); the first begins at minus infinity.
Steps = tuple[tuple[float | None, str], ...]

GOOD, WARN, BAD, NEUTRAL = "green", "orange", "red", "blue"
FAST = "green"  # served without a full inference; also what was saved
FULL = "blue"  # a full inference; also what was spent
FALLBACK = "orange"  # asked for the fast path and did not get it; also what was overspent
GIVEN_UP = "#8e8e99"  # grey: no fault, and no one waits any more
BROKEN = "dark-red"

PERCENTILES = {
    "fast": {"p50": "light-green", "p95": "green", "p99": "dark-green"},
    "full": {"p50": "light-blue", "p95": "blue", "p99": "dark-blue"},
}
ENDINGS = {"ok": GOOD, "error": BAD, "incomplete": BROKEN, "cancelled": "#6e6e7a", "abandoned": GIVEN_UP}
VERDICTS = {"hit": FAST, "miss": FULL, "fallback": FALLBACK, "bypass": GIVEN_UP}
OUTCOMES = {"fast": FAST, "full": FULL, "fallback": FALLBACK, "error": BAD}
MECHANISMS = {row.name: row.colour for row in mechanisms.ALL}
# Open sets, such as models and routes: hues that mean nothing else, by the first letter, so that a name keeps
# its hue on all dashboards; names that share one are shades of it.
OPEN = "purple"
OPEN_HUES = {
    "^[a-cA-C]": "#b877d9", "^[d-fD-F]": "#c7956d", "^[g-lG-L]": "#37c8c3", "^[m-rM-R]": "#d6c24a",
    "^[s-zS-Z]": "#7f9cc0",
}  # fmt: skip
QUIET = "#a0a0ad"  # what the rest is compared with
MISSES = {
    "first_use": "#8ab8ff", "expired": "blue", "history_changed": "#37c8c3", "tools_changed": "yellow",
    "system_changed": "purple", "model_changed": "dark-purple", "below_minimum": GIVEN_UP,
    "no_breakpoint": "#6e6e7a", "unknown": "#4a4a55",
}  # fmt: skip
INPUT_TOKENS = {"full": "blue", "read": "green", "written": "orange"}
OUTPUT_TOKENS = {"visible": "purple", "reasoning": "dark-purple"}


def complete(table: str, colours: Mapping[str, str], values: Iterable[str]) -> None:
    """Refuse a table of colours that is not for exactly the catalogue's values.

    Raises:
        CatalogueError: naming the table, what is missing and what is too much.
    """
    if odd := set(colours) ^ set(values):
        raise CatalogueError(f"bundle/dashboards/style.py: {table} and the catalogue differ in {sorted(odd)}")


complete("VERDICTS", VERDICTS, c.VERDICTS)
complete("ENDINGS", ENDINGS, c.ENDINGS)
complete("MISSES", MISSES, c.MISS_REASONS)


def of(colours: Mapping[str, str], names: Iterable[str] | None = None) -> dict[str, str]:
    """Return the colours by name of series, all or those given."""
    return {n: colours[n] for n in (colours if names is None else names)}


def rising(warn: float, bad: float | None = None) -> Steps:
    """Return steps of colour where higher is worse."""
    return ((None, GOOD), (warn, WARN)) + (() if bad is None else ((bad, BAD),))


def target_line(*values: float, colour: str = WARN) -> Steps:
    """Return dashed lines for a chart; nothing is coloured but the lines."""
    return ((None, "transparent"), *((v, colour) for v in sorted(values)))
