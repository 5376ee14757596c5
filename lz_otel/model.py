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

__all__ = ["EndedCall", "Ending", "Facts", "Measurement", "Request", "Verdict"]


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
        self.body = body
        self.headers: Mapping[str, str] = {} if headers is None else headers


class Facts:
    """What one exchange (one attempt) says about itself. Filled by a reader of ``_extract``.

    ``None`` means: not said. Input counts are normalised: ``input_tokens`` is the whole
    prompt, cached and written tokens included; ``output_tokens`` includes reasoning.
    """

    # Defaults of the class: a call sets but a few of these, and making Facts is on the hot path
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
    output_final: bool = False  # output_tokens is the provider's last word, no placeholder
    web_search_requests: int | None = None  # billed per request, apart from tokens
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
    last_content_at: float | None = None
    content_events: int = 0
    chunk_gaps: Any = None  # aggregated gaps between content pieces, or None
    # Sinks a mechanism may set before the body is read; called with each piece, in order
    text_sink: Callable[[str], None] | None = None  # output text
    mask_sink: Callable[[Any], None] | None = None  # zeroing_mask values as decoded

    def __init__(self, provider: str, operation: str, *, inference: bool, llm_call: bool) -> None:
        self.provider = provider  # gen_ai.provider.name
        self.operation = operation  # gen_ai.operation.name, or "count_tokens" / "other"
        self.inference = inference  # a sample of gen_ai.client.inference.duration
        self.llm_call = llm_call  # a model ran; False leaves no series (token counting, polling)
        self.finish_reasons: list[str] = []
        self.malformed: list[str] = []  # signals that could not be read


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


class EndedCall:
    """One call as the judges see it: its last attempt, with the request and how it ended."""

    __slots__ = (
        "cost",
        "ended_at",
        "ending",
        "error_type",
        "facts",
        "first_byte_at",
        "group",
        "request",
        "response_headers",
        "route",
        "session",
        "started_at",
        "status",
        "trace_id",
    )

    def __init__(
        self,
        request: Request,
        facts: Facts,
        status: int | None,
        response_headers: Mapping[str, str],
        ending: str,
        started_at: float,
        ended_at: float,
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
        self.ended_at = ended_at
        self.route = route
        self.group = group
        self.session = session
        self.trace_id: str | None = None  # of the span in which the call began, where somebody logs it
        self.cost: Any = None  # what the price table says, once a mechanism has asked it
