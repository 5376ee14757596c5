"""What every dialect needs to fill ``Facts``: decoding, counts, errors, text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lz_otel._extract.provider_error import ProviderError, provider_error
from lz_otel._extract.values import MAX_COUNT, MAX_NAME, lenient, model_name, token_count
from lz_otel._ground.unreadable import UNREADABLE

if TYPE_CHECKING:
    import msgspec

    from lz_otel._extract.request import Fields
    from lz_otel.model import Facts

_T = TypeVar("_T")
_UNNAMED = ProviderError("_OTHER")
MAX_NOTES = 16
"""Most signals of one answer that are noted as malformed (C)."""
_MAX_SECOND_ATTEMPTS = 32
_MAX_CHOICES = 128


def is_name(value: Any) -> bool:
    """Return whether a label can hold a value as it was sent."""
    return type(value) is str and 0 < len(value) <= MAX_NAME and value.isprintable()


class FactsWriter:
    """Puts into ``facts`` what a body says; notes what cannot be read and raises nothing."""

    _status = 200
    _attempts = 0
    _hidden = 0
    _usage: dict[str, Any] | None = None  # what usage objects have stated so far (`usage.state`)
    _reasons: dict[int, str] = {}  # noqa: RUF012 - replaced, never added to

    def __init__(self, facts: Facts, fields: Fields | None = None) -> None:
        """Write to ``facts``, in which what the request says (``fields``) is put at once."""
        if fields is not None:
            facts.request_fields = fields
            model = fields.model
            facts.request_model = model if is_name(model) else model_name(model)
            facts.stream = fields.stream is True
        self.facts = facts
        self._texts: list[str] = []  # for their sinks, as long as the reader is at its own work
        self._masks: list[Any] = []

    def _note(self, signal: str) -> None:
        """Note a signal that could not be read (``catalogue.MALFORMED``)."""
        if len(self.facts.malformed) < MAX_NOTES:
            self.facts.malformed.append(signal)

    def _decode(self, decoder: msgspec.json.Decoder[_T], data: bytes) -> _T | None:
        """Decode, at a second attempt leniently; ``None`` when it is not to be had."""
        try:
            return decoder.decode(data)
        except UNREADABLE:
            if self._attempts >= _MAX_SECOND_ATTEMPTS:
                return None
            self._attempts += 1
            found: _T | None = lenient(decoder.type, data)
            return found

    def _bad_event(self, data: bytes) -> None:
        """Note an event that could not be read; an empty one is no fault."""
        if data and data != b"[DONE]":
            self._note("event")

    def _count(self, usage: dict[str, Any], key: str) -> int | None:
        """Return a count of a usage object; one that is stated and wrong is noted."""
        value = usage.get(key)
        if value is None or (type(value) is int and 0 <= value <= MAX_COUNT):
            return value
        found = token_count(value)
        if found is None:
            self._note("usage")
        return found

    def _counts(self, usage: dict[str, Any], *keys: str) -> list[int | None]:
        """Return counts of a usage object, as `_count` does."""
        counts = []
        for key in keys:
            value = usage.get(key)
            if value is None or (type(value) is int and 0 <= value <= MAX_COUNT):
                counts.append(value)
            else:
                counts.append(self._count(usage, key))
        return counts

    def _names(
        self, response_id: Any = None, model: Any = None, tier: Any = None, reason: Any = None
    ) -> None:
        """Take over names as they are sent; one that no label can hold leaves what was said before it."""
        facts = self.facts
        if is_name(response_id):
            facts.response_id = response_id
        if is_name(model):
            facts.response_model = model
        elif facts.response_model is None:
            facts.response_model = model_name(model)
        if is_name(tier):
            facts.service_tier = tier
        if is_name(reason):
            facts.finish_reasons = [reason]

    def _choice_ended(self, index: Any, reason: Any) -> None:
        """Note why one of several choices ended, in the order of the choices."""
        if is_name(reason) and len(self._reasons) < _MAX_CHOICES:
            self._reasons = {**self._reasons, (index if type(index) is int else 0): reason}
            self.facts.finish_reasons = [self._reasons[choice] for choice in sorted(self._reasons)]

    def _stated_error(self, error: Any, *, in_stream: bool = False) -> None:
        """Note the value of ``error`` in a body; an empty one says that there is none."""
        if error:
            found = provider_error({"error": error})
            self._error(found if any(found) else _UNNAMED, in_stream=in_stream)

    def _error(self, found: ProviderError, *, in_stream: bool = False) -> None:
        """Note the provider's error; the first one that names a type stands."""
        facts = self.facts
        if in_stream and self._status < 400:
            facts.stream_error = True
        facts.error_type = facts.error_type or found.type
        facts.error_code = facts.error_code or found.code
        facts.error_message = facts.error_message or found.message

    def _thought(self, value: Any) -> int:
        """Thinking, shown or not; 1 when it is content. A user does not wait for it."""
        if value:
            self._hidden += 1
            return 1
        return 0

    def _text(self, value: Any) -> int:
        """Output text; 1 when it is content."""
        if type(value) is str and value:
            if self.facts.text_sink is not None:
                self._texts.append(value)
            return 1
        return 0
