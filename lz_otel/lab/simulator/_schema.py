"""From TOML tables to checked dataclasses, with errors that name file, key, value and what is allowed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["build", "choice", "count", "flag", "names", "number", "rate", "shares", "span", "text"]

_T = TypeVar("_T")


class _NotAllowedError(ValueError):
    """A value is not what its key allows."""


def _field(default: Any, allowed: str, check: Callable[[Any], Any]) -> Any:
    metadata = {"allowed": allowed, "check": check}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def rate(default: float) -> Any:
    """A share between 0 and 1."""

    def check(value: Any) -> float:
        if not _is_number(value) or not 0.0 <= value <= 1.0:
            raise _NotAllowedError
        return float(value)

    return _field(default, "a share between 0 and 1", check)


def number(default: float, low: float = 0.0, high: float = 1e9) -> Any:
    """A number within bounds."""

    def check(value: Any) -> float:
        if not _is_number(value) or not low <= value <= high:
            raise _NotAllowedError
        return float(value)

    return _field(default, f"a number between {low:g} and {high:g}", check)


def count(default: int, low: int = 0, high: int = 10**9) -> Any:
    """A whole number within bounds."""

    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise _NotAllowedError
        return value

    return _field(default, f"a whole number between {low} and {high}", check)


def span(low: float, high: float) -> Any:
    """Two numbers, the lower first."""

    def check(value: Any) -> tuple[float, float]:
        if not isinstance(value, list) or len(value) != 2 or not all(map(_is_number, value)):
            raise _NotAllowedError
        if not 0.0 <= value[0] <= value[1]:
            raise _NotAllowedError
        return float(value[0]), float(value[1])

    return _field((low, high), "two numbers >= 0, the lower first", check)


def flag(default: bool = False) -> Any:
    """True or false."""

    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise _NotAllowedError
        return value

    return _field(default, "true or false", check)


def text(default: str = "") -> Any:
    """Any text."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise _NotAllowedError
        return value

    return _field(default, "a text", check)


def choice(default: str, *allowed: str) -> Any:
    """One of a closed list of words."""

    def check(value: Any) -> str:
        if value not in allowed:
            raise _NotAllowedError
        return str(value)

    return _field(default, "one of " + ", ".join(repr(a) for a in allowed), check)


def names(*default: str) -> Any:
    """A list of words."""

    def check(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise _NotAllowedError
        return tuple(value)

    return _field(tuple(default), "a list of non-empty texts", check)


def shares(keys: tuple[str, ...] = ()) -> Any:
    """A table of weights, by name; the names may be a closed list."""

    def check(value: Any) -> dict[str, float]:
        if not isinstance(value, dict) or (keys and not set(value) <= set(keys)):
            raise _NotAllowedError
        if not all(_is_number(v) and v >= 0 for v in value.values()):
            raise _NotAllowedError
        return {k: float(v) for k, v in value.items()}

    allowed = "a table of weights >= 0" + (" for " + ", ".join(map(repr, keys)) if keys else "")
    return _field({}, allowed, check)


def build(cls: type[_T], table: Any, where: str, base: _T | None = None, skip: tuple[str, ...] = ()) -> _T:
    """Make a dataclass from a TOML table.

    Args:
        cls: dataclass whose fields were made by the functions above.
        table: what the TOML file holds.
        where: file and key so far, for errors.
        base: values of the keys that the table does not give; the defaults otherwise.
        skip: keys that the caller reads itself.

    Raises:
        ConfigurationError: an unknown key, or a value that is not allowed.
    """
    if not isinstance(table, dict):
        raise ConfigurationError(where, table, "a table")
    fields = {f.name: f for f in dataclasses.fields(cls) if "check" in f.metadata}  # type: ignore[arg-type]  # cls is a dataclass type
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key in skip:
            continue
        if key not in fields:
            raise ConfigurationError(
                f"{where}.{key}", value, "one of the keys " + ", ".join([*fields, *skip])
            )
        try:
            values[key] = fields[key].metadata["check"](value)
        except _NotAllowedError:
            raise ConfigurationError(f"{where}.{key}", value, fields[key].metadata["allowed"]) from None
    if base is not None:
        return dataclasses.replace(base, **values)  # type: ignore[type-var]  # base is a dataclass instance
    return cls(**values)
