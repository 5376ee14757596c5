"""The nouns of lz_otel: what is seen on the wire, what is concluded, what is counted.

This module imports the shape of a head and nothing else of ours, and holds no logic.
Data flows one way: ``Request`` + bytes -> ``Facts`` -> ``Verdict`` -> ``EndedCall`` -> rows of numbers.

Times are ``time.perf_counter()`` seconds, token counts are non-negative ``int``
(``None`` = the exchange does not say; nothing is ever estimated).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from lz_otel._ground.headers import NO_HEADERS, Headers

__all__ = ["EndedCall", "Ending", "Facts", "Request", "Verdict"]


class Ending:
    """How a call ended (the closed list of the contract, ``lz.ending``)."""

    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    INCOMPLETE = "incomplete"
    ALL = (OK, ERROR, CANCELLED, ABANDONED, INCOMPLETE)


class Request(Struct, eq=False):
    """One HTTP request as it left the process. Never exported, dropped when the call ends.

    Attributes:
        host: lower-case host name without port.
        path: path without query, percent-encoded as on the wire.
        headers: lower-case names, first value of each; latin-1 text.
        body: the bytes of the body, ``None`` when it is a stream that we must not read.
    """

    method: str
    host: str
    path: str
    query: str = ""
    headers: Headers = NO_HEADERS
    body: bytes | None = None


class Facts(Struct, eq=False):
    """What one exchange (one attempt) says about itself. Filled by a reader of ``_extract``.

    ``None`` means: not said. Input counts are normalised: ``input_tokens`` is the whole
    prompt, cached and written tokens included; ``output_tokens`` includes reasoning.
    """

    provider: str  # gen_ai.provider.name
    operation: str  # gen_ai.operation.name, or "count_tokens" / "other"
    inference: bool  # a sample of gen_ai.client.inference.duration
    llm_call: bool  # a model ran; False leaves no series (token counting, polling)
    free: bool = False  # a model ran, and nobody pays for it (moderations)
    finish_reasons: list[str] = []
    malformed: list[str] = []  # signals that could not be read
    request_model: str | None = None
    stream: bool = False
    usage_requested: bool | None = None  # False: a stream without include_usage
    request_fields: Any = None  # decoded top level of the request body (dialect's own struct)
    response_model: str | None = None
    response_id: str | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    upstream_provider: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    input_tokens_by_modality: dict[str, int] | None = None
    output_tokens_by_modality: dict[str, int] | None = None
    counted_tokens: int | None = None  # answer of a count_tokens request
    cost_reported: float | None = None  # USD, where the provider bills and says it
    awaited: int = 0  # calls that go on: another exchange will state their end
    too_large: bool = False  # part of the answer was given up for its size
    settled: bool = True  # False: the counts contradict each other, or a total holds more than they name
    cost_besides: float = 0.0  # USD that somebody else bills on top of it; infinite where it is not said
    output_final: bool = False  # output_tokens is the provider's last word, no placeholder
    cached_tokens_by_modality: dict[str, int] | None = None
    fees: dict[str, float] | None = (
        None  # how much of what is billed beside tokens, by the names of prices.toml
    )
    gateway_fell_back: bool = False  # a gateway says that another target answered, and not which
    # Attempts inside this answer that are billed on top of the counts above, as stated
    # (Anthropic ``usage.iterations``: ``compaction``, ``advisor_message``)
    billed_besides: list[dict[str, Any]] | None = None
    usage_seen: bool = False  # the provider stated its usage (all of it, to the end)
    cache_diagnosis: str | None = None  # the vendor's own reason of a prompt-cache miss
    error_type: str | None = None  # the provider's error type, HTTP error or in-stream
    error_code: str | None = None  # finer code (spend limits)
    error_message: str | None = None  # judged locally, never exported
    stream_error: bool = False  # the error came inside a 200 stream
    terminal: bool = False  # the body said that it is complete
    has_content: bool = False  # non-empty content (text, thinking, tool input)
    sse_events: int | None = None
    layer_zero: dict[str, Any] | None = None  # usage.layer_zero (001, C)
    # Timing of content, set while the body is read
    first_content_at: float | None = None
    first_visible_at: float | None = None  # text or tool input, not thinking
    last_content_at: float | None = None
    content_events: int = 0
    chunk_gaps: Any = None  # aggregated gaps between content pieces, or None
    # Sinks a mechanism may set before the body is read; called with each piece, in order
    text_sink: Callable[[str], None] | None = None  # output text
    mask_sink: Callable[[Any], None] | None = None  # zeroing_mask values as decoded


class Verdict(NamedTuple):
    """What one mechanism says about one call.

    Attributes:
        mechanism: one of the seven names of the contract.
        decision: ``hit``, ``miss``, ``fallback`` or ``bypass``.
        reason: why it fell back or missed (closed list of the catalogue), else ``None``.
        engine_seconds: time the fast engine itself reports, seconds.
        cold: whether this hit paid for a cold start (with ``engine_seconds``).
    """

    mechanism: str
    decision: str
    reason: str | None = None
    engine_seconds: float | None = None
    cold: bool = False


class EndedCall(Struct, eq=False):
    """One call that has ended: its last attempt, what was read of it, and what was concluded.

    Judges, rules, spans, operations and the audit log are all handed this one form. ``request``, ``facts``
    and ``response_headers`` are those of the last attempt; what an operation keeps is without them.

    Attributes:
        started_at: start of the first attempt, seconds.
        ended_at: last byte of the last attempt (or the moment of failure), seconds.
        status: HTTP status, ``None`` where no head arrived.
        ending: one of `Ending`.
        error_type: value of ``error.type``; empty on success.
        common: values of the common attributes, capped.
        response_model: value of ``gen_ai.response.model``, capped.
        attempts: HTTP attempts that the call took; 0 for one whose end another exchange has stated.
        timed: both of its ends were seen, so it has a duration.
        encoding_failed: the body came in an encoding that could not be undone.
        route, group, session: of the operation, as the application named them; not capped.
        trace_id: of the span in which the call began, where a log wants it.
        results: conclusions of the mechanisms (``_judge.result.Result``).
        path, served_by: values of ``lz.path`` and ``lz.served_by``.
        stored: a stored answer was sent again: no model ran, nothing is counted twice.
        cost: of ``_price`` (has ``usd``); ``None`` when unpriced.
        unpriced: the billed part that has no price, a value of the catalogue's ``part``; else empty.
        rejected: why the application refused the answer; ``None`` when it did not.
    """

    request: Request
    facts: Facts
    started_at: float
    ended_at: float
    status: int | None = None
    response_headers: Headers = NO_HEADERS
    ending: str = Ending.OK
    first_byte_at: float | None = None
    error_type: str = ""
    common: tuple[str, ...] = ("", "", "", "", "")
    response_model: str = ""
    attempts: int = 1
    encoding_failed: bool = False
    route: str = ""
    group: str = ""
    session: str | None = None
    trace_id: str | None = None
    results: Sequence[Any] = ()
    path: str = "full"
    served_by: str = ""
    stored: bool = False
    cost: Any = None
    unpriced: str = ""
    rejected: str | None = None
    timed: bool = True
