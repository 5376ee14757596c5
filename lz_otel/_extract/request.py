"""Request bodies: one decode of the top level, long values as slices that nobody copies.

``facts.request_fields`` is a ``Fields``: plain values where mechanisms need them, ``Raw`` (a
slice of the body) for what is long. A value of a wrong kind is left at its default.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from lz_otel._extract.values import json_object, lenient, model_name, nonempty_text

if TYPE_CHECKING:
    from lz_otel.model import Facts, Request

__all__ = ["Fields", "decode_request", "form_field", "read_fields", "user_id"]

MAX_REQUEST = 32 << 20
"""Most bytes of a request body that are looked at (C)."""
_FORM_WINDOW = 64 << 10

NOTHING = Raw(b"")


class Fields(Struct, gc=False):
    """Top level of a request body, of any of the APIs. Absent ``Raw`` values are empty bytes.

    Attributes:
        model: name of the model.
        stream: true for a stream.
        messages: each message as a slice (``messages``, or ``contents`` of Gemini).
        system: the system prompt, a string or a list (also ``instructions``, ``systemInstruction``).
        tools: list of tools as a slice.
        zeroing_threshold, stability_window, impact_tolerance, user_segment: zeroing (003, A).
    """

    model: Any = None
    stream: Any = None
    max_tokens: Any = None
    messages: list[Raw] | None = None
    system: Raw = NOTHING
    tools: Raw = NOTHING
    tool_choice: Raw = NOTHING
    thinking: Raw = NOTHING
    output_config: Raw = NOTHING
    cache_control: Any = None
    metadata: Any = None
    temperature: Any = None
    service_tier: Any = None
    speed: Any = None
    inference_geo: Any = None
    diagnostics: Any = None
    stream_options: Any = None
    logprobs: Any = None
    prompt_cache_key: Any = None
    prompt: Raw = NOTHING
    input: Raw = NOTHING
    instructions: Raw = NOTHING
    background: Any = None
    zeroing_threshold: Any = None
    stability_window: Any = None
    impact_tolerance: Any = None
    user_segment: Any = None


_FIELDS = msgspec.json.Decoder(Fields)


def decode_request(request: Request, decoder: msgspec.json.Decoder[Any] = _FIELDS) -> Any:
    """The top level of the request's JSON body, ``None`` when there is none to be read."""
    body = request.body
    if not body or len(body) > MAX_REQUEST:
        return None
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return lenient(decoder.type, body) if body[:64].lstrip()[:1] == b"{" else None


def read_fields(facts: Facts, fields: Any) -> Facts:
    """Put what the request's top level says into ``facts``."""
    if fields is not None:
        facts.request_fields = fields
        facts.request_model = model_name(fields.model)
        facts.stream = fields.stream is True
    return facts


def user_id(fields: Fields) -> str | None:
    """``metadata.user_id`` of a Messages request."""
    return nonempty_text(json_object(fields.metadata).get("user_id"))


def form_field(request: Request, field: str) -> str | None:
    """The value of a short field of a multipart form, looked for at both ends of the body."""
    body = request.body
    if not body or "multipart/form-data" not in request.headers.get("content-type", ""):
        return None
    pattern = re.compile(
        rb'name="?' + field.encode() + rb'"?(?:\r?\n[^\r\n]{0,200}){0,4}?\r?\n\r?\n([^\r\n]{1,200})\r?\n'
    )
    for window in (body[:_FORM_WINDOW], body[-_FORM_WINDOW:]):
        found = pattern.search(window)
        if found:
            return found[1].decode("utf-8", "replace")
    return None
