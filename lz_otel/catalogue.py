"""Every metric of lz_otel, as data: the one source of names, units, buckets and labels.

Instruments, exporters, dashboards, alerts and the generated docs are all derived from here.
A metric that is not in this file cannot be recorded, drawn, alerted on or documented.

Marks: **D** documented by a vendor or by OpenTelemetry, **A** stated only in an article
(000-004), **C** chosen by lz-otel. Source of the names: the signal contract, and the
OpenTelemetry GenAI semantic conventions (state of October 2026).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lz_otel.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ALL",
    "COMMON",
    "ENDINGS",
    "MECHANISMS",
    "Attribute",
    "Metric",
    "by_name",
    "label_name",
    "prometheus_name",
    "selected",
]

COUNTER, UP_DOWN, GAUGE, HISTOGRAM = "counter", "updowncounter", "gauge", "histogram"

MECHANISMS = (
    "symbolic",
    "pruning",
    "intent",
    "zeroing",
    "scheduling",
    "prompt_cache",
    "response_cache",
)
VERDICTS = ("hit", "miss", "fallback", "bypass")
ENDINGS = ("ok", "error", "cancelled", "abandoned", "incomplete")
OPERATIONS = ("chat", "generate_content", "text_completion", "embeddings", "other")

# Attempts: what an HTTP attempt came to. Statuses outside the list fall into their class.
TRANSPORT_ERRORS = (
    "connect_error",
    "connect_timeout",
    "read_error",
    "read_timeout",
    "write_error",
    "write_timeout",
    "pool_timeout",
    "protocol_error",
    "cancelled",
    "other_error",
)
STATUSES = (
    "200",
    "400",
    "401",
    "402",
    "403",
    "404",
    "408",
    "409",
    "413",
    "422",
    "429",
    "500",
    "502",
    "503",
    "504",
    "529",
    "1xx",
    "2xx",
    "3xx",
    "4xx",
    "5xx",
    *TRANSPORT_ERRORS,
)
RETRY_REASONS = (*STATUSES, "unknown")
USAGE_MISSING = ("ended_early", "not_requested", "not_sent", "malformed", "compressed")
MISS_REASONS = (
    "first_use",
    "expired",
    "model_changed",
    "tools_changed",
    "system_changed",
    "history_changed",
    "below_minimum",
    "no_breakpoint",
    "unknown",
)
# Why a mechanism fell back. The keys are the mechanisms that can.
FALLBACK_REASONS: dict[str, tuple[str, ...]] = {
    "symbolic": ("schema_invalid", "hedge_lost", "fast_timeout", "rejected", "other"),
    "pruning": ("rejected",),
    "intent": (
        "wrong_header",
        "no_beta",
        "not_streaming",
        "unsupported_model",
        "silent",
        "temperature_rejected",
    ),
    "zeroing": ("triggered", "too_long", "no_report"),
    "scheduling": ("served_standard", "not_served"),
    "response_cache": ("gateway_fallback", "gateway_retry"),
}
ALL_FALLBACK_REASONS = tuple(sorted({r for rs in FALLBACK_REASONS.values() for r in rs}))
# Why one model stepped in for another within an operation.
MODEL_FALLBACK_REASONS = (
    "overloaded",
    "rate_limited",
    "spend_limit",
    "timeout",
    "connection",
    "server_error",
    "client_error",
    "rejected",
    "other",
)

DURATION_BUCKETS = (
    0.005, 0.010, 0.015, 0.020, 0.025, 0.030, 0.040, 0.050, 0.075, 0.100, 0.150, 0.200, 0.300,
    0.400, 0.600, 0.800, 1.0, 1.2, 1.6, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0,
)  # fmt: skip
CHUNK_BUCKETS = (
    0.001, 0.0025, 0.005, 0.010, 0.015, 0.020, 0.030, 0.040, 0.050, 0.075, 0.100, 0.150, 0.200,
    0.300, 0.500, 0.750, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
RATE_BUCKETS = (
    1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0, 125.0, 150.0, 200.0,
    300.0, 400.0, 600.0, 1000.0, 2000.0, 5000.0,
)  # fmt: skip
RATIO_BUCKETS = tuple(round(0.05 * i, 2) for i in range(21))
QUALITY_BUCKETS = (
    *(round(0.1 * i, 1) for i in range(9)),
    *(round(0.8 + 0.01 * i, 2) for i in range(1, 21)),
)
CALLS_BUCKETS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0)
OVERHEAD_BUCKETS = (
    0.000010, 0.000020, 0.000030, 0.000050, 0.000075, 0.000100, 0.000150, 0.000200, 0.000300,
    0.000500, 0.001, 0.002, 0.005, 0.010, 0.050, 0.100,
)  # fmt: skip
TOKEN_BUCKETS = tuple(float(4**i) for i in range(14))


class Attribute(NamedTuple):
    """One attribute of a metric: a closed list of values, or an open set with a cap.

    Attributes:
        name: OpenTelemetry name.
        values: the closed list, or ``()`` for an open set.
        cap: most distinct values per process of an open set; the rest become ``other``.
        doc: one line of meaning.
        optional: an empty value is normal and means "does not apply".
    """

    name: str
    values: tuple[str, ...] = ()
    cap: int = 0
    doc: str = ""
    optional: bool = False

    @property
    def label(self) -> str:
        """Prometheus label name."""
        return label_name(self.name)


class Metric(NamedTuple):
    """One metric.

    Attributes:
        name: OpenTelemetry name.
        kind: ``counter``, ``updowncounter``, ``gauge`` or ``histogram``.
        unit: UCUM unit of OpenTelemetry (``s``, ``{token}``, ``{USD}`` ...).
        attributes: all attributes, in the order in which a Measurement gives their values.
        doc: one line of meaning.
        mark: ``D``, ``A`` or ``C`` (see the module text).
        buckets: upper bounds, histograms only.
        mechanism: the mechanism it belongs to; it has no series before that one is awake.
        convention: ``""`` always, ``"latest"`` or ``"1.36"`` for the sets of GenAI conventions.
    """

    name: str
    kind: str
    unit: str
    attributes: tuple[Attribute, ...]
    doc: str
    mark: str = "C"
    buckets: tuple[float, ...] = ()
    mechanism: str = ""
    convention: str = ""

    @property
    def prometheus(self) -> str:
        """Prometheus name without ``_bucket``, ``_sum``, ``_count``."""
        return prometheus_name(self.name, self.unit, self.kind)

    @property
    def labels(self) -> tuple[str, ...]:
        """Prometheus label names, in order."""
        return tuple(a.label for a in self.attributes)

    @property
    def starts_at_zero(self) -> bool:
        """Counters of closed lists only start at 0, since ``increase`` never sees a first event."""
        extra = [a for a in self.attributes if a not in COMMON]
        return self.kind == COUNTER and all(a.values for a in extra)


_UNIT_WORDS = {"s": "seconds", "By": "bytes", "ms": "milliseconds", "%": "percent"}


def label_name(name: str) -> str:
    """Translate an attribute name into a Prometheus label name."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def prometheus_name(name: str, unit: str, kind: str) -> str:
    """Translate by the standard OpenTelemetry rules (annotations in braces add nothing)."""
    out = re.sub(r"_+", "_", re.sub(r"[^a-zA-Z0-9_:]", "_", name))
    main, _, per = unit.partition("/")
    words = []
    if main and not main.startswith("{"):
        words.append(_UNIT_WORDS.get(main, main))
    if per:
        words.append("per_" + {"s": "second"}.get(per, per))
    for word in words:
        if not out.endswith("_" + word):
            out += "_" + word
    if kind == COUNTER and not out.endswith("_total"):
        out += "_total"
    return out


# --- attributes -----------------------------------------------------------------------------

OPERATION = Attribute("gen_ai.operation.name", OPERATIONS, doc="what kind of call it was")
PROVIDER = Attribute("gen_ai.provider.name", cap=50, doc="who answers the API")
REQUEST_MODEL = Attribute("gen_ai.request.model", cap=100, doc="the model that was asked for")
ROUTE = Attribute("lz.route", cap=100, doc="name of the operation", optional=True)
GROUP = Attribute("lz.group", cap=10, doc="A/B group or roll-out stage", optional=True)
COMMON = (OPERATION, PROVIDER, REQUEST_MODEL, ROUTE, GROUP)
NO_OPERATION_COMMON = (ROUTE, GROUP)  # operations span models

RESPONSE_MODEL = Attribute("gen_ai.response.model", cap=100, doc="the model that answered", optional=True)
ERROR_TYPE = Attribute("error.type", cap=50, doc="the provider's error type, or the exception class", optional=True)
PATH = Attribute("lz.path", ("fast", "full"), doc="fast: served without a full inference")
SERVED_BY = Attribute("lz.served_by", ("", *MECHANISMS), doc="the mechanism whose hit made it fast", optional=True)
STREAM = Attribute("lz.stream", ("true", "false"), doc="whether the answer was streamed")
ENDING = Attribute("lz.ending", ENDINGS, doc="how the call ended")
MODALITY = Attribute("gen_ai.token.modality", ("text", "image", "audio", "unknown"), doc="kind of content")
MECHANISM = Attribute("mechanism", MECHANISMS, doc="way of being served without the full price")
VERDICT = Attribute("verdict", VERDICTS, doc="what the mechanism came to")
STATUS = Attribute("status", STATUSES, doc="HTTP status, or what kept one from arriving")
RESOURCE = Attribute(
    "resource",
    ("requests", "tokens", "input_tokens", "output_tokens", "priority_input_tokens", "priority_output_tokens",
     "fast_input_tokens", "fast_output_tokens", "project_tokens"),
    doc="what is limited",
)  # fmt: skip
INTENT = Attribute("intent", ("deterministic", "creative", "balanced", "other"), doc="the sampling intent asked for")
SYSTEM = Attribute("gen_ai.system", cap=50, doc="name of gen_ai.provider.name before v1.37")
TOKEN_TYPE = Attribute("gen_ai.token.type", ("input", "output"), doc="input or output")


def _closed(name: str, values: tuple[str, ...], doc: str) -> Attribute:
    return Attribute(name, values, doc=doc)


# --- standard metrics (OpenTelemetry GenAI conventions, D) ------------------------------------

_CALL = (*COMMON, RESPONSE_MODEL, ERROR_TYPE, PATH, SERVED_BY, STREAM, ENDING)
_USAGE = (*COMMON, RESPONSE_MODEL, MODALITY)

INFERENCE_DURATION = Metric(
    "gen_ai.client.inference.duration", HISTOGRAM, "s", _CALL,
    "Calls: first attempt's start to the last byte of the answer, back-off included.", "D", DURATION_BUCKETS,
    convention="latest",
)  # fmt: skip
OPERATION_DURATION = Metric(
    "gen_ai.client.operation.duration", HISTOGRAM, "s", _CALL,
    "Embeddings and other calls that are no text inference: start to the last byte.", "D", DURATION_BUCKETS,
    convention="latest",
)  # fmt: skip
TIME_TO_FIRST_CHUNK = Metric(
    "gen_ai.client.inference.time_to_first_chunk", HISTOGRAM, "s", (*COMMON, PATH),
    "Streams: call start to the first piece of the body, whatever it holds.", "D", DURATION_BUCKETS,
)  # fmt: skip
TIME_PER_OUTPUT_CHUNK = Metric(
    "gen_ai.client.inference.time_per_output_chunk", HISTOGRAM, "s", (*COMMON, PATH),
    "Streams: time between two pieces of the body that hold content.", "D", CHUNK_BUCKETS,
)  # fmt: skip
INPUT_TOKENS = Metric(
    "gen_ai.client.inference.usage.input_tokens", COUNTER, "{token}", _USAGE,
    "All input tokens, cached and written ones included.", "D",
)  # fmt: skip
OUTPUT_TOKENS = Metric(
    "gen_ai.client.inference.usage.output_tokens", COUNTER, "{token}", _USAGE,
    "All output tokens, reasoning included.", "D",
)  # fmt: skip
CACHE_READ_TOKENS = Metric(
    "gen_ai.client.inference.usage.cache_read.input_tokens", COUNTER, "{token}", _USAGE,
    "Input tokens read from the prompt cache (part of the input tokens).", "D",
)  # fmt: skip
CACHE_WRITE_TOKENS = Metric(
    "gen_ai.client.inference.usage.cache_write.input_tokens", COUNTER, "{token}", _USAGE,
    "Input tokens written to the prompt cache (part of the input tokens).", "D",
)  # fmt: skip
REASONING_TOKENS = Metric(
    "gen_ai.client.inference.usage.reasoning.output_tokens", COUNTER, "{token}", _USAGE,
    "Output tokens spent on reasoning (part of the output tokens).", "D",
)  # fmt: skip

# The older convention, by LZ_OTEL_GENAI_CONVENTIONS=1.36 or both
LEGACY_OPERATION_DURATION = Metric(
    "gen_ai.client.operation.duration", HISTOGRAM, "s", (*_CALL, SYSTEM),
    "Conventions 1.36: every call, inference or not, start to the last byte.", "D", DURATION_BUCKETS,
    convention="1.36",
)  # fmt: skip
LEGACY_TOKEN_USAGE = Metric(
    "gen_ai.client.token.usage", HISTOGRAM, "{token}", (*COMMON, RESPONSE_MODEL, SYSTEM, TOKEN_TYPE),
    "Conventions 1.36: tokens per call, by type.", "D", TOKEN_BUCKETS, convention="1.36",
)  # fmt: skip

# --- our own metrics --------------------------------------------------------------------------

TIME_TO_FIRST_TOKEN = Metric(
    "lz.call.time_to_first_token", HISTOGRAM, "s", (*COMMON, PATH, SERVED_BY),
    "Streams: call start to the first content (text, thinking or tool input).", "C", DURATION_BUCKETS,
)  # fmt: skip
OUTPUT_RATE = Metric(
    "lz.call.output_rate", HISTOGRAM, "{token}/s", (*COMMON, PATH),
    "Streams: output tokens by the time from the first to the last content.", "C", RATE_BUCKETS,
)  # fmt: skip
ATTEMPTS = Metric(
    "lz.attempts", COUNTER, "{attempt}", (*COMMON, STATUS), "HTTP attempts, by what came back.",
)  # fmt: skip
CALL_RETRIES = Metric(
    "lz.call.retries", COUNTER, "{attempt}",
    (*COMMON, _closed("reason", RETRY_REASONS, "status or error of the attempt before")),
    "Attempts after the first of a call.",
)  # fmt: skip
CALL_ACTIVE = Metric("lz.call.active", UP_DOWN, "{call}", COMMON, "Calls begun and not ended.")
USAGE_MISSING_CALLS = Metric(
    "lz.call.usage_missing", COUNTER, "{call}",
    (*COMMON, _closed("reason", USAGE_MISSING, "why there is no usage")),
    "Calls that ended without the provider saying its usage; nothing is guessed.",
)  # fmt: skip
COST_USD = Metric(
    "lz.cost.usd", COUNTER, "{USD}", (*COMMON, RESPONSE_MODEL), "Money spent, by the dated price table.",
)  # fmt: skip
SAVED_USD = Metric(
    "lz.saved.usd", COUNTER, "{USD}", (*COMMON, MECHANISM), "What the same calls would have cost more at full price.",
)  # fmt: skip
OVERSPENT_USD = Metric(
    "lz.overspent.usd", COUNTER, "{USD}", (*COMMON, MECHANISM),
    "What the calls cost beyond full price (writes to a prompt cache).",
)  # fmt: skip
COST_UNPRICED = Metric("lz.cost.unpriced", COUNTER, "{call}", COMMON, "Calls whose model has no price.")
_LIMIT = (OPERATION, PROVIDER, REQUEST_MODEL, RESOURCE)
RATE_LIMIT_REMAINING = Metric(
    "lz.rate_limit.remaining", GAUGE, "{unit}", _LIMIT, "What the provider last said is left of a limit.", "D",
)  # fmt: skip
RATE_LIMIT_LIMIT = Metric(
    "lz.rate_limit.limit", GAUGE, "{unit}", _LIMIT, "The limit, as the provider last said it.", "D",
)  # fmt: skip
RATE_LIMIT_RESET = Metric(
    "lz.rate_limit.reset", GAUGE, "s", _LIMIT, "Seconds until the limit is refilled, as last said.", "D",
)  # fmt: skip
FAST_PATH_CALLS = Metric(
    "lz.fast_path.calls", COUNTER, "{call}", (*COMMON, MECHANISM, VERDICT), "Verdicts of the mechanisms.",
)  # fmt: skip
FAST_PATH_FALLBACKS = Metric(
    "lz.fast_path.fallbacks", COUNTER, "{call}",
    (*COMMON, MECHANISM, _closed("reason", ALL_FALLBACK_REASONS, "why the fast path was not got")),
    "Calls that asked for a fast path and did not get it.",
)  # fmt: skip
ENGINE_DURATION = Metric(
    "lz.fast_path.engine.duration", HISTOGRAM, "s",
    (*COMMON, MECHANISM, _closed("cold", ("true", "false"), "the first hit of a request fingerprint")),
    "Time that the fast engine itself reports.", "A", DURATION_BUCKETS,
)  # fmt: skip
_OUTCOME = _closed("outcome", ("fast", "full", "fallback", "error"), "what the operation came to")
OP_DURATION = Metric(
    "lz.operation.duration", HISTOGRAM, "s", (ROUTE, GROUP, _OUTCOME), "Operations, from entry to exit.", "C",
    DURATION_BUCKETS,
)  # fmt: skip
OP_CALLS = Metric(
    "lz.operation.calls", HISTOGRAM, "{call}", (ROUTE, GROUP, _OUTCOME), "Calls per operation.", "C", CALLS_BUCKETS,
)  # fmt: skip
OP_FALLBACKS = Metric(
    "lz.operation.fallbacks", COUNTER, "{call}",
    (ROUTE, GROUP, Attribute("from", cap=100, doc="the model that failed"),
     Attribute("to", cap=100, doc="the model that stepped in"),
     _closed("reason", MODEL_FALLBACK_REASONS, "why the first one failed")),
    "Calls to another model after one failed, within one operation.",
)  # fmt: skip
QUALITY = Metric(
    "lz.quality", HISTOGRAM, "{score}", (ROUTE, GROUP, Attribute("metric", cap=20, doc="name of the score")),
    "The application's own scores, 0 to 1.", "C", QUALITY_BUCKETS,
)  # fmt: skip
PROMPT_CACHE_WRITE_TOKENS = Metric(
    "lz.prompt_cache.write_tokens", COUNTER, "{token}",
    (*COMMON, _closed("ttl", ("5m", "1h"), "lifetime of the entry")),
    "Tokens written to the prompt cache, by lifetime.", "D", mechanism="prompt_cache",
)  # fmt: skip
PROMPT_CACHE_MISSES = Metric(
    "lz.prompt_cache.misses", COUNTER, "{call}",
    (*COMMON, _closed("reason", MISS_REASONS, "the vendor's diagnosis where there is one, else ours")),
    "Calls that could have read the prompt cache and did not.", "C", mechanism="prompt_cache",
)  # fmt: skip
SYMBOLIC_EVIDENCE = Metric(
    "lz.symbolic.evidence", COUNTER, "{call}",
    (*COMMON, _closed("signal", ("header", "zero_output", "input_match", "contradiction"), "what was seen")),
    "Signs of the symbolic engine, of hits and others.", "A", mechanism="symbolic",
)  # fmt: skip
PRUNED_TOKENS = Metric(
    "lz.pruning.pruned_tokens", COUNTER, "{token}", COMMON, "Input tokens cut by pruning.", "C", mechanism="pruning",
)  # fmt: skip
ORIGINAL_TOKENS = Metric(
    "lz.pruning.original_tokens", COUNTER, "{token}", COMMON, "Input tokens before pruning.", "C",
    mechanism="pruning",
)  # fmt: skip
REQUESTED_RATIO = Metric(
    "lz.pruning.requested_ratio", HISTOGRAM, "{ratio}", COMMON, "prune_ratio asked for.", "A", RATIO_BUCKETS,
    "pruning",
)  # fmt: skip
CONTEXT_PRESERVATION = Metric(
    "lz.pruning.context_preservation", HISTOGRAM, "s", COMMON, "Time spent on preserving the tagged context.", "C",
    DURATION_BUCKETS, "pruning",
)  # fmt: skip
INTENT_CALLS = Metric(
    "lz.intent.calls", COUNTER, "{call}", (*COMMON, INTENT), "Calls by sampling intent.", "A", mechanism="intent",
)  # fmt: skip
INTENT_REPEATS = Metric(
    "lz.intent.repeats", COUNTER, "{call}",
    (*COMMON, INTENT, _closed("result", ("same", "different"), "output against that of the same request before")),
    "Repeated requests, by whether the output was the same.", "A", mechanism="intent",
)  # fmt: skip
INTENT_TRANSITIONS = Metric(
    "lz.intent.transitions", COUNTER, "{call}",
    (*COMMON, _closed("changed", ("true", "false"), "whether the intent differs from the call before")),
    "Consecutive calls of a session.", "A", mechanism="intent",
)  # fmt: skip
ZEROING_PARAMS_RATIO = Metric(
    "lz.zeroing.params_ratio", HISTOGRAM, "{ratio}", COMMON, "Share of parameters zeroed.", "A", RATIO_BUCKETS,
    "zeroing",
)  # fmt: skip
ZEROING_CONFIDENCE = Metric(
    "lz.zeroing.routing_confidence", HISTOGRAM, "{ratio}", COMMON, "Confidence of the routing.", "A", RATIO_BUCKETS,
    "zeroing",
)  # fmt: skip
ZEROING_LAYERS = Metric(
    "lz.zeroing.layers", COUNTER, "{layer}", (*COMMON, _closed("state", ("all", "zeroed"), "which layers")),
    "Layers, all and zeroed.", "A", mechanism="zeroing",
)  # fmt: skip
MASK_EVENTS = Metric(
    "lz.zeroing.mask_events", COUNTER, "{event}", COMMON, "Masks seen in streams.", "A", mechanism="zeroing",
)  # fmt: skip
MASK_SWITCHES = Metric(
    "lz.zeroing.mask_switches", COUNTER, "{event}", COMMON, "Masks that differ from the one before.", "A",
    mechanism="zeroing",
)  # fmt: skip
SIMILAR_CALLS = Metric(
    "lz.scheduling.similar_calls", COUNTER, "{call}", COMMON,
    "Calls that resemble one of the last 100 prompts by more than 0.92.", "A", mechanism="scheduling",
)  # fmt: skip
GHOST_ENTITIES = Metric(
    "lz.scheduling.ghost_entities", COUNTER, "{entity}", COMMON,
    "Entities in an answer that came from another recent request of the process.", "A", mechanism="scheduling",
)  # fmt: skip
MALFORMED = Metric(
    "lz.malformed", COUNTER, "{signal}",
    (*COMMON, _closed("signal", ("body", "event", "usage", "layer_zero", "report", "mask", "header", "limit",
                                 "encoding", "frame"), "which signal")),
    "Signals that could not be read.",
)  # fmt: skip
INTERNAL_ERRORS = Metric(
    "lz.internal.errors", COUNTER, "{error}", (_closed("where", ("capture", "extract", "judge", "measure", "export", "spans", "operation", "audit"),
             "part of lz_otel"),),
    "Faults of lz_otel itself; the host never sees them.",
)  # fmt: skip
INTERNAL_OVERFLOW = Metric(
    "lz.internal.overflow", COUNTER, "{series}", (Attribute("metric", cap=100, doc="the metric over its limit"),),
    "Label sets over a metric's limit, counted into one series of 'other'.",
)  # fmt: skip
INTERNAL_OVERHEAD = Metric(
    "lz.internal.overhead", HISTOGRAM, "s", (), "Time spent inside lz_otel per call (sampled).", "C",
    OVERHEAD_BUCKETS,
)  # fmt: skip
BUILD_INFO = Metric(
    "lz.build_info", GAUGE, "{build}",
    tuple(Attribute(n, cap=1, doc=f"{n} in use", optional=True)
          for n in ("version", "python_version", "httpx_version", "httpx2_version")),
    "Always 1; what is running.",
)  # fmt: skip

ALL: tuple[Metric, ...] = tuple(v for v in list(globals().values()) if isinstance(v, Metric))


def by_name(name: str) -> Metric:
    """The metric of that OpenTelemetry or Prometheus name.

    Raises:
        CatalogueError: there is none.
    """
    for metric in ALL:
        if name in (metric.name, metric.prometheus):
            return metric
    raise CatalogueError(f"no metric {name!r} in the catalogue")


def selected(conventions: str) -> Iterator[Metric]:
    """The metrics in force for ``latest``, ``1.36`` or ``both``.

    With the older set, ``gen_ai.client.operation.duration`` holds every call.
    """
    for metric in ALL:
        if metric is OPERATION_DURATION and conventions != "latest":
            continue
        if not metric.convention or metric.convention == conventions or conventions == "both":
            yield metric
