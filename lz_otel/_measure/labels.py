"""Values of open attributes, kept few: first come, first served, the rest is ``other``.

A name that was seen first (or that the price table knows) is never pushed out by later ones,
however many a proxy or an agent invents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel.catalogue import ERROR_TYPE, GROUP, PROVIDER, REQUEST_MODEL, RESPONSE_MODEL, ROUTE

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER = "other"
_MAX_LENGTH = 128
_MAX_CACHED = 4096


def clean(value: str) -> str:
    """Return a label value that every exposition format can hold: printable and at most 128 characters."""
    if len(value) > _MAX_LENGTH:
        return OTHER
    return value if value.isprintable() else OTHER


class _Open(dict[str, str]):
    """The admitted values of one open attribute; looking one up calls no Python once it is known."""

    def __init__(self, cap: int, known: Callable[[str], bool] | None = None) -> None:
        super().__init__({"": "", OTHER: OTHER})
        self._cap = cap
        self._known = known
        self._admitted = 0

    def __missing__(self, value: str) -> str:
        text = clean(value)
        if text == OTHER:
            return OTHER
        full = self._admitted >= self._cap
        if full and (self._known is None or not self._known(text) or len(self) > self._cap * 4):
            return OTHER
        self._admitted += 1
        self[text] = text
        return text


class _Common(dict[tuple[str, str, str, str, str], tuple[str, ...]]):
    """Values of the five common attributes, as named by calls, to the values that are admitted."""

    def __init__(self, boxes: tuple[_Open, _Open, _Open, _Open]) -> None:
        super().__init__()
        self._boxes = boxes

    def __missing__(self, key: tuple[str, str, str, str, str]) -> tuple[str, ...]:
        values = (key[0], *(box[value] for box, value in zip(self._boxes, key[1:], strict=True)))
        # Keys are text of the host: what is too long for a label must not be kept either.
        if len(self) < _MAX_CACHED and max(map(len, key)) <= _MAX_LENGTH:
            self[key] = values
        return values


class Labels:
    """Caps on the open attributes of one process.

    Args:
        known_model: whether a model is in the price table; such names are always admitted.

    Attributes:
        model, response_model, route, group, error_type: give the value of the attribute for a name.
        commons: gives the values of the five common attributes for those that a call names.
    """

    def __init__(self, known_model: Callable[[str], bool] | None = None) -> None:
        model, route, group = _Open(REQUEST_MODEL.cap, known_model), _Open(ROUTE.cap), _Open(GROUP.cap)
        self.model = model.__getitem__
        self.response_model = _Open(RESPONSE_MODEL.cap, known_model).__getitem__
        self.route = route.__getitem__
        self.group = group.__getitem__
        self.error_type = _Open(ERROR_TYPE.cap).__getitem__
        self.commons = _Common((_Open(PROVIDER.cap), model, route, group))
        self._others: dict[str, _Open] = {}

    def common(self, operation: str, provider: str, model: str, route: str, group: str) -> tuple[str, ...]:
        """Return the values of the five common attributes."""
        return self.commons[operation, provider, model, route, group]

    def other(self, attribute: str, cap: int, value: str) -> str:
        """Return the value of any other open attribute."""
        box = self._others.get(attribute)
        if box is None:
            box = self._others[attribute] = _Open(cap)
        return box[value]
