"""Every metric of lz_otel, as data: the one source of names, units, buckets and labels.

Instruments, exporters, dashboards, alerts and the generated docs are all derived from here.
A metric that is not in this file cannot be recorded, drawn, alerted on or documented.

Marks: **D** documented by a vendor or by OpenTelemetry, **A** stated only in an article
(000-004), **C** chosen by lz-otel. Source of the names: the signal contract, and the
OpenTelemetry GenAI semantic conventions (state of October 2026).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel._ground.vocabulary import (
    ALL_FALLBACK_REASONS,
    CALLS_BUCKETS,
    CHUNK_BUCKETS,
    COMMON,
    COUNTER,
    DURATION_BUCKETS,
    ENDINGS,
    FALLBACK_REASONS,
    GAUGE,
    GENAI_OPERATION,
    GENAI_OPERATIONS,
    GROUP,
    HISTOGRAM,
    MECHANISMS,
    MISS_REASONS,
    MODEL_FALLBACK_REASONS,
    OVERHEAD_BUCKETS,
    PROVIDER,
    QUALITY_BUCKETS,
    RATE_BUCKETS,
    RATIO_BUCKETS,
    REQUEST_MODEL,
    RETRY_REASONS,
    ROUTE,
    STATUSES,
    TOKEN_BUCKETS,
    TRANSPORT_ERRORS,
    UP_DOWN,
    USAGE_MISSING,
    VERDICTS,
    Attribute,
    Metric,
    label_name,
    prometheus_name,
)
from lz_otel.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ALL", "ALL_FALLBACK_REASONS", "CALLS_BUCKETS", "CHUNK_BUCKETS", "COMMON", "COUNTER",
    "DURATION_BUCKETS", "ENDINGS", "FALLBACK_REASONS", "GAUGE", "GENAI_OPERATION", "GENAI_OPERATIONS",
    "GROUP", "HISTOGRAM", "MECHANISMS", "MISS_REASONS", "MODEL_FALLBACK_REASONS", "OVERHEAD_BUCKETS",
    "PROVIDER", "QUALITY_BUCKETS", "RATE_BUCKETS", "RATIO_BUCKETS", "REQUEST_MODEL", "RETRY_REASONS",
    "ROUTE", "STATUSES", "TOKEN_BUCKETS", "TRANSPORT_ERRORS", "UP_DOWN", "USAGE_MISSING", "VERDICTS",
    "Attribute", "Metric", "by_name", "label_name", "prometheus_name", "selected",
]  # fmt: skip

RESPONSE_MODEL = Attribute("gen_ai.response.model", cap=100, doc="the model that answered", optional=True)
ERROR_TYPE = Attribute(
    "error.type", cap=50, doc="the provider's error type, or the exception class", optional=True
)
PATH = Attribute("lz.path", ("fast", "full"), doc="fast: served without a full inference")
SERVED_BY = Attribute(
    "lz.served_by", ("", *MECHANISMS), doc="the mechanism whose hit made it fast", optional=True
)
STREAM = Attribute("lz.stream", ("true", "false"), doc="whether the answer was streamed")
ENDING = Attribute("lz.ending", ENDINGS, doc="how the call ended")
MODALITY = Attribute("gen_ai.token.modality", ("text", "image", "audio", "unknown"), doc="kind of content")
MECHANISM = Attribute("mechanism", MECHANISMS, doc="way of being served without the full price")
VERDICT = Attribute("verdict", VERDICTS, doc="what the mechanism came to")
STATUS = Attribute("status", STATUSES, doc="HTTP status, or what kept one from arriving")
ACCOUNT = Attribute("lz.account", cap=20, doc="project or organisation that a header names", optional=True)
RESOURCE = Attribute(
    "resource",
    ("requests", "tokens", "input_tokens", "output_tokens", "priority_input_tokens", "priority_output_tokens",
     "fast_input_tokens", "fast_output_tokens", "project_tokens"),
    doc="what is limited",
)  # fmt: skip
INTENT = Attribute(
    "intent", ("deterministic", "creative", "balanced", "other"), doc="the sampling intent asked for"
)
SYSTEM = Attribute("gen_ai.system", cap=50, doc="name of gen_ai.provider.name before v1.37")
TOKEN_TYPE = Attribute("gen_ai.token.type", ("input", "output"), doc="input or output")


PARTS = ("model", "audio", "image", "tool_fee", "cache", "tier", "gateway_fallback", "other")


def _closed(name: str, values: tuple[str, ...], doc: str) -> Attribute:
    return Attribute(name, values, doc=doc)


# fmt: off
# --- standard metrics (OpenTelemetry GenAI conventions, D) ------------------------------------

_CALL = (*COMMON, RESPONSE_MODEL, ERROR_TYPE, PATH, SERVED_BY, STREAM, ENDING)
_USAGE = (*COMMON, RESPONSE_MODEL, MODALITY)

INFERENCE_DURATION = Metric(
    "gen_ai.client.inference.duration", HISTOGRAM, "s", _CALL,
    "Calls: first attempt's start to the last byte of the answer, back-off included.", "D", DURATION_BUCKETS,
    convention="latest",
)
GENAI_OPERATION_DURATION = Metric(
    "gen_ai.client.operation.duration", HISTOGRAM, "s", _CALL,
    "Embeddings and other calls that are no text inference: start to the last byte.", "D", DURATION_BUCKETS,
    convention="latest",
)
TIME_TO_FIRST_CHUNK = Metric(
    "gen_ai.client.inference.time_to_first_chunk", HISTOGRAM, "s", (*COMMON, PATH),
    "Streams: call start to the first piece of the body, whatever it holds.", "D", DURATION_BUCKETS,
)
TIME_PER_OUTPUT_CHUNK = Metric(
    "gen_ai.client.inference.time_per_output_chunk", HISTOGRAM, "s", (*COMMON, PATH),
    "Streams: time between two pieces of the body that hold content.", "D", CHUNK_BUCKETS,
)
INPUT_TOKENS = Metric(
    "gen_ai.client.inference.usage.input_tokens", COUNTER, "{token}", _USAGE,
    "All input tokens, cached and written ones included.", "D",
)
OUTPUT_TOKENS = Metric(
    "gen_ai.client.inference.usage.output_tokens", COUNTER, "{token}", _USAGE,
    "All output tokens, reasoning included.", "D",
)
CACHE_READ_TOKENS = Metric(
    "gen_ai.client.inference.usage.cache_read.input_tokens", COUNTER, "{token}", _USAGE,
    "Input tokens read from the prompt cache (part of the input tokens).", "D",
)
CACHE_WRITE_TOKENS = Metric(
    "gen_ai.client.inference.usage.cache_write.input_tokens", COUNTER, "{token}", _USAGE,
    "Input tokens written to the prompt cache (part of the input tokens).", "D",
)
REASONING_TOKENS = Metric(
    "gen_ai.client.inference.usage.reasoning.output_tokens", COUNTER, "{token}", _USAGE,
    "Output tokens spent on reasoning (part of the output tokens).", "D",
)

# The older convention, by LZ_OTEL_GENAI_CONVENTIONS=1.36 or both
LEGACY_GENAI_OPERATION_DURATION = Metric(
    "gen_ai.client.operation.duration", HISTOGRAM, "s", (*_CALL, SYSTEM),
    "Conventions 1.36: every call, inference or not, start to the last byte.", "D", DURATION_BUCKETS,
    convention="1.36",
)
LEGACY_TOKEN_USAGE = Metric(
    "gen_ai.client.token.usage", HISTOGRAM, "{token}", (*COMMON, RESPONSE_MODEL, SYSTEM, TOKEN_TYPE),
    "Conventions 1.36: tokens per call, by type.", "D", TOKEN_BUCKETS, convention="1.36",
)

# --- our own metrics --------------------------------------------------------------------------

TIME_TO_FIRST_TOKEN = Metric(
    "lz.call.time_to_first_token", HISTOGRAM, "s", (*COMMON, PATH, SERVED_BY),
    "Streams: call start to the first content (text, thinking or tool input).", "C", DURATION_BUCKETS,
)
TIME_TO_FIRST_VISIBLE = Metric(
    "lz.call.time_to_first_visible", HISTOGRAM, "s", (*COMMON, PATH),
    "Streams: call start to the first text or tool input, which a user waits for (not thinking).", "C",
    DURATION_BUCKETS,
)
OUTPUT_RATE = Metric(
    "lz.call.output_rate", HISTOGRAM, "{token}/s", (*COMMON, PATH),
    "Streams: output tokens by the time from the first to the last content.", "C", RATE_BUCKETS,
)
ATTEMPTS = Metric(
    "lz.attempts", COUNTER, "{attempt}", (*COMMON, STATUS), "HTTP attempts, by what came back.",
)
CALL_RETRIES = Metric(
    "lz.call.retries", COUNTER, "{attempt}",
    (*COMMON, _closed("reason", RETRY_REASONS, "status or error of the attempt before")),
    "Attempts after the first of a call.",
)
CALL_ACTIVE = Metric("lz.call.active", UP_DOWN, "{call}", COMMON, "Calls begun and not ended.")
USAGE_MISSING_CALLS = Metric(
    "lz.call.usage_missing", COUNTER, "{call}",
    (*COMMON, _closed("reason", USAGE_MISSING, "why there is no usage")),
    "Calls that ended without the provider saying its usage; nothing is guessed.",
)
COST_USD = Metric(
    "lz.cost.usd", COUNTER, "{USD}", (*COMMON, RESPONSE_MODEL), "Money spent, by the dated price table.",
)
SAVED_USD = Metric(
    "lz.saved.usd", COUNTER, "{USD}", (*COMMON, MECHANISM),
    "What the same calls would have cost more at full price.",
)
OVERSPENT_USD = Metric(
    "lz.overspent.usd", COUNTER, "{USD}", (*COMMON, MECHANISM),
    "What the calls cost beyond full price (writes to a prompt cache).",
)
COST_UNPRICED = Metric(
    "lz.cost.unpriced", COUNTER, "{call}", (*COMMON, _closed("part", PARTS, "what has no price")),
    "Calls of which a billed part has no price: nothing of them is in `lz.cost.usd`.",
)
_LIMIT = (GENAI_OPERATION, PROVIDER, REQUEST_MODEL, ACCOUNT, RESOURCE)
RATE_LIMIT_REMAINING = Metric(
    "lz.rate_limit.remaining", GAUGE, "{unit}", _LIMIT,
    "What the provider last said is left of a limit, until its reset; of several keys, the least.",
    "D",
)
RATE_LIMIT_LIMIT = Metric(
    "lz.rate_limit.limit", GAUGE, "{unit}", _LIMIT,
    "The limit, as the provider last said it, until its reset.", "D",
)
RATE_LIMIT_RESET = Metric(
    "lz.rate_limit.reset", GAUGE, "s", _LIMIT, "Seconds until the limit is refilled, as last said.", "D",
)
FAST_PATH_CALLS = Metric(
    "lz.fast_path.calls", COUNTER, "{call}", (*COMMON, MECHANISM, VERDICT), "Verdicts of the mechanisms.",
)
FAST_PATH_FALLBACKS = Metric(
    "lz.fast_path.fallbacks", COUNTER, "{call}",
    (*COMMON, MECHANISM, _closed("reason", ALL_FALLBACK_REASONS, "why the fast path was not got")),
    "Calls that asked for a fast path and did not get it.",
)
ENGINE_DURATION = Metric(
    "lz.fast_path.engine.duration", HISTOGRAM, "s",
    (*COMMON, MECHANISM, _closed("cold", ("true", "false"), "the first hit of a request fingerprint")),
    "Time that the fast engine itself reports.", "A", DURATION_BUCKETS,
)
_OUTCOME = _closed("outcome", ("fast", "full", "fallback", "error", "empty"), "what the operation came to")
OPERATION_DURATION = Metric(
    "lz.operation.duration", HISTOGRAM, "s", (ROUTE, GROUP, _OUTCOME), "Operations, from entry to exit.", "C",
    DURATION_BUCKETS,
)
OPERATION_CALLS = Metric(
    "lz.operation.calls", HISTOGRAM, "{call}", (ROUTE, GROUP, _OUTCOME),
    "Calls per operation.", "C", CALLS_BUCKETS,
)
OPERATION_FALLBACKS = Metric(
    "lz.operation.fallbacks", COUNTER, "{call}",
    (ROUTE, GROUP, Attribute("from", cap=100, doc="the model that failed"),
     Attribute("to", cap=100, doc="the model that stepped in"),
     _closed("reason", MODEL_FALLBACK_REASONS, "why the first one failed")),
    "Calls to another model after one failed, within one operation.",
)
QUALITY = Metric(
    "lz.quality", HISTOGRAM, "{score}", (ROUTE, GROUP, Attribute("metric", cap=20, doc="name of the score")),
    "The application's own scores, 0 to 1.", "C", QUALITY_BUCKETS,
)
PROMPT_CACHE_WRITE_TOKENS = Metric(
    "lz.prompt_cache.write_tokens", COUNTER, "{token}",
    (*COMMON, _closed("ttl", ("5m", "1h"), "lifetime of the entry")),
    "Tokens written to the prompt cache, by lifetime.", "D", mechanism="prompt_cache",
)
PROMPT_CACHE_MISSES = Metric(
    "lz.prompt_cache.misses", COUNTER, "{call}",
    (*COMMON, _closed("reason", MISS_REASONS, "the vendor's diagnosis where there is one, else ours")),
    "Calls that could have read the prompt cache and did not.", "C", mechanism="prompt_cache",
)
SYMBOLIC_EVIDENCE = Metric(
    "lz.symbolic.evidence", COUNTER, "{call}",
    (*COMMON, _closed("signal", ("header", "zero_output", "input_match", "contradiction"), "what was seen")),
    "Signs of the symbolic engine, of hits and others.", "A", mechanism="symbolic",
)
PRUNED_TOKENS = Metric(
    "lz.pruning.pruned_tokens", COUNTER, "{token}", COMMON,
    "Input tokens cut by pruning.", "C", mechanism="pruning",
)
ORIGINAL_TOKENS = Metric(
    "lz.pruning.original_tokens", COUNTER, "{token}", COMMON,
    "Input tokens before pruning.", "C", mechanism="pruning",
)
REQUESTED_RATIO = Metric(
    "lz.pruning.requested_ratio", HISTOGRAM, "{ratio}", COMMON,
    "prune_ratio asked for.", "A", RATIO_BUCKETS, "pruning",
)
CONTEXT_PRESERVATION = Metric(
    "lz.pruning.context_preservation", HISTOGRAM, "s", COMMON,
    "Time spent on preserving the tagged context.", "C", DURATION_BUCKETS, "pruning",
)
INTENT_CALLS = Metric(
    "lz.intent.calls", COUNTER, "{call}", (*COMMON, INTENT),
    "Calls by sampling intent.", "A", mechanism="intent",
)
INTENT_REPEATS = Metric(
    "lz.intent.repeats", COUNTER, "{call}",
    (*COMMON, INTENT,
     _closed("result", ("same", "different"), "output against that of the same request before")),
    "Repeated requests, by whether the output was the same.", "A", mechanism="intent",
)
INTENT_TRANSITIONS = Metric(
    "lz.intent.transitions", COUNTER, "{call}",
    (*COMMON, _closed("changed", ("true", "false"), "whether the intent differs from the call before")),
    "Consecutive calls of a session.", "A", mechanism="intent",
)
ZEROING_PARAMS_RATIO = Metric(
    "lz.zeroing.params_ratio", HISTOGRAM, "{ratio}", COMMON,
    "Share of parameters zeroed.", "A", RATIO_BUCKETS, "zeroing",
)
ZEROING_CONFIDENCE = Metric(
    "lz.zeroing.routing_confidence", HISTOGRAM, "{ratio}", COMMON,
    "Confidence of the routing.", "A", RATIO_BUCKETS, "zeroing",
)
ZEROING_LAYERS = Metric(
    "lz.zeroing.layers", COUNTER, "{layer}", (*COMMON, _closed("state", ("all", "zeroed"), "which layers")),
    "Layers, all and zeroed.", "A", mechanism="zeroing",
)
MASK_EVENTS = Metric(
    "lz.zeroing.mask_events", COUNTER, "{event}", COMMON, "Masks seen in streams.", "A", mechanism="zeroing",
)
MASK_SWITCHES = Metric(
    "lz.zeroing.mask_switches", COUNTER, "{event}", COMMON, "Masks that differ from the one before.", "A",
    mechanism="zeroing",
)
SIMILAR_CALLS = Metric(
    "lz.scheduling.similar_calls", COUNTER, "{call}", COMMON,
    "Calls that resemble one of the last 100 prompts by more than 0.92.", "A", mechanism="scheduling",
)
GHOST_ENTITIES = Metric(
    "lz.scheduling.ghost_entities", COUNTER, "{entity}", COMMON,
    "Entities in an answer that came from another recent request of the process.", "A",
    mechanism="scheduling",
)
MALFORMED = Metric(
    "lz.malformed", COUNTER, "{signal}",
    (*COMMON, _closed("signal", ("body", "event", "usage", "layer_zero", "report", "mask", "header", "limit",
                                 "encoding", "frame"), "which signal")),
    "Signals that could not be read.",
)
INTERNAL_ERRORS = Metric(
    "lz.internal.errors", COUNTER, "{error}",
    (_closed("where", ("capture", "extract", "judge", "measure", "export", "spans", "operation", "audit"),
             "part of lz_otel"),),
    "Faults of lz_otel itself; the host never sees them.",
)
INTERNAL_LOST = Metric(
    "lz.internal.lost", COUNTER, "{call}",
    (_closed("what", ("fault", "queue", "folder", "push", "worker", "audit", "spans"),
             "what lost it: a fault of ours, a full queue, the shared folder, a last push that failed, "
             "a worker process that was killed, the audit log, spans that were not sent"),),
    "What could not be kept, where that is known.",
)
INTERNAL_OVERFLOW = Metric(
    "lz.internal.overflow", COUNTER, "{series}",
    (Attribute("metric", cap=100, doc="the metric over its limit"),),
    "Label sets over a metric's limit, counted into one series of 'other'.",
)
INTERNAL_OVERHEAD = Metric(
    "lz.internal.overhead", HISTOGRAM, "s", (), "Time spent inside lz_otel per call (sampled).", "C",
    OVERHEAD_BUCKETS,
)
BUILD_INFO = Metric(
    "lz.build_info", GAUGE, "{build}",
    tuple(Attribute(n, cap=1, doc=f"{n} in use", optional=True)
          for n in ("version", "python_version", "httpx_version", "httpx2_version")),
    "Always 1; what is running.",
)
# fmt: on

ALL: tuple[Metric, ...] = tuple(v for v in list(globals().values()) if isinstance(v, Metric))


def by_name(name: str) -> Metric:
    """Return the metric of that OpenTelemetry or Prometheus name.

    Raises:
        CatalogueError: there is none.
    """
    for metric in ALL:
        if name in (metric.name, metric.prometheus):
            return metric
    raise CatalogueError(f"no metric {name!r} in the catalogue")


def selected(conventions: str) -> Iterator[Metric]:
    """Yield the metrics in force for ``latest``, ``1.36`` or ``both``.

    With the older set, ``gen_ai.client.operation.duration`` holds every call.
    """
    for metric in ALL:
        if metric is GENAI_OPERATION_DURATION and conventions != "latest":
            continue
        if not metric.convention or metric.convention == conventions or conventions == "both":
            yield metric
