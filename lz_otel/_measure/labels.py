"""Values of open attributes, kept few: first come, first served, the rest is ``other``.

A name that was seen first (or that the price table knows) is never pushed out by later ones,
however many a proxy or an agent invents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel.catalogue import ERROR_TYPE, GROUP, PROVIDER, REQUEST_MODEL, RESPONSE_MODEL, ROUTE

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OTHER", "Labels", "clean"]

OTHER = "other"
_MAX_LENGTH = 128
_MAX_CACHED = 4096


def clean(value: str) -> str:
    """A label value that every exposition format can hold: printable and at most 128 characters."""
    if len(value) > _MAX_LENGTH:
        return OTHER
    return value if value.isprintable() else OTHER


class _Open:
    """One open attribute."""

    __slots__ = ("_admitted", "_cap", "_known", "_lookup")

    def __init__(self, cap: int, known: Callable[[str], bool] | None = None) -> None:
        self._cap = cap
        self._known = known
        self._admitted = 0
        self._lookup: dict[str, str] = {"": "", OTHER: OTHER}

    def get(self, value: str) -> str:
        found = self._lookup.get(value)
        return self._admit(value) if found is None else found

    def _admit(self, value: str) -> str:
        text = clean(value)
        if text == OTHER:
            return OTHER
        full = self._admitted >= self._cap
        if full and (self._known is None or not self._known(text) or len(self._lookup) > self._cap * 4):
            return OTHER
        self._admitted += 1
        self._lookup[text] = text
        return text


class Labels:
    """Caps on the open attributes of one process.

    Args:
        known_model: whether a model is in the price table; such names are always admitted.
    """

    def __init__(self, known_model: Callable[[str], bool] | None = None) -> None:
        self._provider = _Open(PROVIDER.cap)
        self._model = _Open(REQUEST_MODEL.cap, known_model)
        self._response_model = _Open(RESPONSE_MODEL.cap, known_model)
        self._route = _Open(ROUTE.cap)
        self._group = _Open(GROUP.cap)
        self._error = _Open(ERROR_TYPE.cap)
        self._others: dict[str, _Open] = {}
        self._common: dict[tuple[str, str, str, str, str], tuple[str, ...]] = {}

    def common(self, operation: str, provider: str, model: str, route: str, group: str) -> tuple[str, ...]:
        """Values of the five common attributes."""
        key = (operation, provider, model, route, group)
        found = self._common.get(key)
        if found is not None:
            return found
        made = (
            operation,
            self._provider.get(provider),
            self._model.get(model),
            self._route.get(route),
            self._group.get(group),
        )
        # Keys are text of the host: what is too long for a label must not be kept either.
        if len(self._common) < _MAX_CACHED and max(map(len, key)) <= _MAX_LENGTH:
            self._common[key] = made
        return made

    def response_model(self, model: str) -> str:
        """Value of ``gen_ai.response.model``."""
        return self._response_model.get(model)

    def model(self, model: str) -> str:
        """Value of an attribute that names a requested model."""
        return self._model.get(model)

    def route(self, route: str) -> str:
        """Value of ``lz.route``."""
        return self._route.get(route)

    def group(self, group: str) -> str:
        """Value of ``lz.group``."""
        return self._group.get(group)

    def error_type(self, error_type: str) -> str:
        """Value of ``error.type``."""
        return self._error.get(error_type)

    def other(self, attribute: str, cap: int, value: str) -> str:
        """Value of any other open attribute."""
        box = self._others.get(attribute)
        if box is None:
            box = self._others[attribute] = _Open(cap)
        return box.get(value)
