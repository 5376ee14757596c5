"""A request as a candidate for a call: who answers at its host, and what its body says.

The body is decoded once, its top level only; long values are slices of it that are not copied.
``facts.request_fields`` is a ``Fields``: plain values where mechanisms need them, ``Raw`` (a
slice of the body) for what is long. A value of a wrong kind is left at its default.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw, Struct, field

from lz_otel._extract.hosts import GATEWAY_SEGMENT, HOSTS, SUFFIXES, provider_by_suffix, provider_in_path
from lz_otel._extract.skim import skim
from lz_otel._extract.values import json_object, lenient, nonempty_text
from lz_otel._ground.unreadable import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lz_otel._extract.reader import Reader
    from lz_otel.model import Request

_LARGE = 4 << 20  # a request body above that is shortened before it is read (C)
_MOST_KEPT = 512 << 10  # and so much of what is left is read
_FORM_WINDOW = 64 << 10

NOTHING = Raw(b"")
_NO_PROVIDERS: Mapping[str, str] = {}


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
    # Names of other vendors, which their dialects put in the places above
    contents: list[Raw] | None = None  # Gemini
    cached_content: Any = field(default=None, name="cachedContent")
    system_instruction: Raw = field(default=NOTHING, name="systemInstruction")  # Gemini
    tool_config: Raw = field(default=NOTHING, name="toolConfig")  # Bedrock
    model_id: Any = None  # watsonx


_FIELDS = msgspec.json.Decoder(Fields)


class Dialect(Protocol):
    """Decides whether a request is a call of one API."""

    def __call__(self, request: Request, provider: str | None, fields: Fields | None, /) -> Reader | None:
        """Return the reader of the answer; ``None`` when the request is no call of this API.

        Args:
            request: the request.
            provider: who answers at its host; ``None`` for a host that is not known.
            fields: what its body says; ``None`` without a JSON object.
        """


def identify(
    candidates: tuple[Dialect, ...], request: Request, providers: Mapping[str, str] = _NO_PROVIDERS
) -> Reader | None:
    """Return the reader for a call, ``None`` when the request is none.

    Args:
        candidates: what ``candidate`` gave.
        request: the request; its body decides on hosts that are not known.
        providers: host name to provider name, from ``LZ_OTEL_PROVIDERS``.
    """
    host, path = request.host, request.path
    provider = providers.get(host) or HOSTS.get(host)
    if provider is None and host.endswith(SUFFIXES):
        provider = provider_by_suffix(host, path)
    fields = decode_request(request)
    for dialect in candidates:
        reader = dialect(request, provider, fields)
        if reader is not None:
            if provider is None and GATEWAY_SEGMENT(path):
                reader.facts.provider = provider_in_path(path) or reader.facts.provider
            return reader
    return None


def decode_request(request: Request) -> Fields | None:
    """Return the top level of the request's JSON body, ``None`` when there is none to be read."""
    body = request.body
    if not body:
        return None
    large = len(body) > _LARGE
    if large:
        body, _ = skim(body, _MOST_KEPT)
    try:
        fields: Fields | None = _FIELDS.decode(body)
    except UNREADABLE:
        fields = lenient(Fields, body) if body[:64].lstrip()[:1] == b"{" else None
    if large and fields is not None and fields.messages is not None:
        fields.messages = []  # what is left of them says nothing about the prompt
    return fields


def user_id(fields: Fields) -> str | None:
    """Return ``metadata.user_id`` of a Messages request."""
    return nonempty_text(json_object(fields.metadata).get("user_id"))


def deployment(path: str) -> str | None:
    """Return the deployment in an Azure path, which stands for the model."""
    return path.partition("/deployments/")[2].partition("/")[0] or None


def form_field(request: Request, name: str) -> str | None:
    """Return the value of a short field of a multipart form, looked for at both ends of the body."""
    body = request.body
    if not body or "multipart/form-data" not in request.headers.get("content-type", ""):
        return None
    pattern = re.compile(
        rb'name="?' + name.encode() + rb'"?(?:\r?\n[^\r\n]{0,200}){0,4}?\r?\n\r?\n([^\r\n]{1,200})\r?\n'
    )
    for window in (body[:_FORM_WINDOW], body[-_FORM_WINDOW:]):
        found = pattern.search(window)
        if found:
            return found[1].decode("utf-8", "replace")
    return None
