"""The nouns of lz_otel: what is seen on the wire, what is concluded, what is counted.

This module imports nothing of ours and holds no logic beyond trivial properties.
Data flows one way: ``Request`` + bytes -> ``Facts`` -> ``Verdict`` -> ``Measurement``.

Times are ``time.perf_counter()`` seconds, token counts are non-negative ``int``
(``None`` = the exchange does not say; nothing is ever estimated).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Ending", "Exchange", "Facts", "Measurement", "Request", "Verdict"]


class Ending:
    """How a call ended (the closed list of the contract, ``lz.ending``)."""

    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    INCOMPLETE = "incomplete"
    ALL = (OK, ERROR, CANCELLED, ABANDONED, INCOMPLETE)


class Request:
    """One HTTP request as it left the process. Never exported, dropped when the call ends.

    Attributes:
        host: lower-case host name without port.
        path: path without query, percent-encoded as on the wire.
        headers: lower-case names, first value of each; latin-1 text.
        body: the bytes of the body, ``None`` when it is a stream that we must not read.
    """

    __slots__ = ("body", "headers", "host", "method", "path", "query")

    def __init__(
        self,
        method: str,
        host: str,
        path: str,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> None:
        self.method = method
        self.host = host
        self.path = path
        self.query = query
        self.headers: Mapping[str, str] = {} if headers is None else headers
        self.body = body


class Facts:
    """What one exchange (one attempt) says about itself. Filled by a reader of ``_extract``.

    ``None`` means: not said. Input counts are normalised: ``input_tokens`` is the whole
    prompt, cached and written tokens included; ``output_tokens`` includes reasoning.
    """

    __slots__ = (
        "billed_besides",
        "cache_diagnosis",
        "cache_read_tokens",
        "cache_write_1h_tokens",
        "cache_write_5m_tokens",
        "cache_write_tokens",
        "chunk_gaps",
        "content_events",
        "cost_reported",
        "counted_tokens",
        "error_code",
        "error_message",
        "error_type",
        "finish_reasons",
        "first_content_at",
        "has_content",
        "inference",
        "inference_geo",
        "input_tokens",
        "input_tokens_by_modality",
        "last_content_at",
        "layer_zero",
        "llm_call",
        "malformed",
        "mask_sink",
        "operation",
        "output_final",
        "output_tokens",
        "output_tokens_by_modality",
        "provider",
        "reasoning_tokens",
        "request_fields",
        "request_model",
        "response_id",
        "response_model",
        "service_tier",
        "speed",
        "sse_events",
        "stream",
        "stream_error",
        "terminal",
        "text_sink",
        "upstream_provider",
        "usage_requested",
        "usage_seen",
    )

    def __init__(self, provider: str, operation: str, *, inference: bool, llm_call: bool) -> None:
        self.provider = provider  # gen_ai.provider.name
        self.operation = operation  # gen_ai.operation.name, or "count_tokens" / "other"
        self.inference = inference  # a sample of gen_ai.client.inference.duration
        self.llm_call = llm_call  # a model ran; False leaves no series (token counting, polling)
        self.request_model: str | None = None
        self.stream = False
        self.usage_requested: bool | None = None  # False: a stream without include_usage
        self.request_fields: Any = None  # decoded top level of the request body (dialect's own struct)
        self.response_model: str | None = None
        self.response_id: str | None = None
        self.finish_reasons: list[str] = []
        self.service_tier: str | None = None
        self.speed: str | None = None
        self.inference_geo: str | None = None
        self.upstream_provider: str | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cache_read_tokens: int | None = None
        self.cache_write_tokens: int | None = None
        self.cache_write_5m_tokens: int | None = None
        self.cache_write_1h_tokens: int | None = None
        self.reasoning_tokens: int | None = None
        self.input_tokens_by_modality: dict[str, int] | None = None
        self.output_tokens_by_modality: dict[str, int] | None = None
        self.counted_tokens: int | None = None  # answer of a count_tokens request
        self.cost_reported: float | None = None  # USD, where the provider bills and says it
        self.output_final = False  # output_tokens is the provider's last word, no placeholder
        # Attempts inside this answer that are billed on top of the counts above, as stated
        # (Anthropic ``usage.iterations``: ``compaction``, ``advisor_message``)
        self.billed_besides: list[dict[str, Any]] | None = None
        self.usage_seen = False  # the provider stated its usage (all of it, to the end)
        self.cache_diagnosis: str | None = None  # the vendor's own reason of a prompt-cache miss
        self.error_type: str | None = None  # the provider's error type, HTTP error or in-stream
        self.error_code: str | None = None  # finer code (spend limits)
        self.error_message: str | None = None  # judged locally, never exported
        self.stream_error = False  # the error came inside a 200 stream
        self.terminal = False  # the body said that it is complete
        self.has_content = False  # non-empty content (text, thinking, tool input)
        self.sse_events: int | None = None
        self.layer_zero: dict[str, Any] | None = None  # usage.layer_zero (001, C)
        self.malformed: list[str] = []  # signals that could not be read
        # Timing of content, set while the body is read
        self.first_content_at: float | None = None
        self.last_content_at: float | None = None
        self.content_events = 0
        self.chunk_gaps: Any = None  # aggregated gaps between content pieces, or None
        # Sinks a mechanism may set before the body is read; called with each piece, in order
        self.text_sink: Callable[[str], None] | None = None  # output text
        self.mask_sink: Callable[[Any], None] | None = None  # zeroing_mask values as decoded


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


class Measurement(NamedTuple):
    """One number for one metric of the catalogue.

    ``labels`` are the values of the metric's attributes in the catalogue's order.
    A counter adds ``value``; an up-down counter adds (may be negative); a gauge sets;
    a histogram observes.
    """

    metric: Any  # catalogue.Metric
    labels: tuple[str, ...]
    value: float


class Exchange:
    """One call as the judges see it: its last attempt, with the request and how it ended."""

    __slots__ = (
        "ending",
        "error_type",
        "facts",
        "first_byte_at",
        "group",
        "last_byte_at",
        "memory",
        "request",
        "response_headers",
        "route",
        "session",
        "started_at",
        "status",
    )

    def __init__(
        self,
        request: Request,
        facts: Facts,
        *,
        status: int | None,
        response_headers: Mapping[str, str],
        ending: str,
        started_at: float,
        last_byte_at: float,
        first_byte_at: float | None = None,
        error_type: str | None = None,
        route: str = "",
        group: str = "",
        session: str | None = None,
    ) -> None:
        self.request = request
        self.facts = facts
        self.status = status
        self.response_headers = response_headers
        self.ending = ending
        self.error_type = error_type
        self.started_at = started_at
        self.first_byte_at = first_byte_at
        self.last_byte_at = last_byte_at
        self.route = route
        self.group = group
        self.session = session
        self.memory: Any = None
