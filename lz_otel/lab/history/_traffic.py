"""A pretend service: what its calls would count, step by step, in good times and in staged incidents.

Figures are chosen to look like the healthy ranges of the signal contract (C); nothing here is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lz_otel import catalogue as c
from lz_otel.bundle.promql import VENDOR_CACHE_HIT_RATE, VENDOR_DECOMPRESSION_P95, VENDOR_SLICE_EFFICIENCY

if TYPE_CHECKING:
    from lz_otel.lab.history._incidents import State
    from lz_otel.lab.history._series import Process

__all__ = ["MODELS", "VERSIONS", "Flow", "Model", "call", "embeddings", "idle", "model", "vendor"]


class Model(NamedTuple):
    """A model: who answers it, USD per million tokens, median seconds and tokens per second of an answer."""

    name: str
    provider: str
    input_usd: float
    output_usd: float
    seconds: float
    speed: float
    reasoning: float = 0.0


MODELS = (
    Model("claude-sonnet-4-5", "anthropic", 3.0, 15.0, 2.6, 75.0),
    Model("claude-haiku-4-5", "anthropic", 1.0, 5.0, 1.1, 150.0),
    Model("gpt-5-mini", "openai", 0.25, 2.0, 1.9, 110.0, 0.35),
    Model("gemini-2.5-flash", "gcp.gemini", 0.3, 2.5, 1.4, 180.0, 0.2),
)
VERSIONS = ("0.1.0", "0.2.0")  # of the pretend process, before and after a restart
EMBEDDER = Model("text-embedding-3-small", "openai", 0.02, 0.0, 0.12, 0.0)


@dataclass
class Flow:
    """Calls of one route to one model.

    Attributes:
        per_second: calls per second of one instance.
        mechanisms: what can serve or shorten them.
        tokens: input and output tokens per call.
    """

    route: str
    model: Model
    per_second: float
    mechanisms: tuple[str, ...] = ()
    group: str = ""
    stream: bool = False
    tokens: tuple[int, int] = (1800, 220)
    second: str = ""  # the model that steps in
    labels: dict[str, str] = field(init=False)
    touched: bool = False

    def __post_init__(self) -> None:
        self.labels = {
            "gen_ai_operation_name": "chat",
            "gen_ai_provider_name": self.model.provider,
            "gen_ai_request_model": self.model.name,
            "lz_route": self.route,
            "lz_group": self.group,
        }


def model(name: str) -> Model:
    """The known model of that name, or one like the first."""
    for one in (*MODELS, EMBEDDER):
        if one.name == name:
            return one
    return MODELS[0]._replace(name=name)


def call(p: Process, f: Flow, s: State, n: float) -> None:
    """Count ``n`` calls of a flow."""
    common = f.labels
    if not f.touched:
        _touch(p, f)
    tokens_in, tokens_out = f.tokens
    overloaded = s.overloaded if f.model.provider == "anthropic" else 0.0
    errors = {"overloaded_error": overloaded * 0.6, "rate_limit_error": s.rate_limited * 0.3,
              "api_error": s.errors, "APITimeoutError": s.errors * 0.3}  # fmt: skip
    failed = n * sum(errors.values())
    given_up = {"abandoned": n * 0.006 if f.stream else 0.0, "cancelled": n * 0.002}
    cut = n * s.cut if f.stream else 0.0
    ok = n - failed - cut - sum(given_up.values())
    fast = _verdicts(p, f, s, ok)
    full = ok - sum(fast.values())
    stream = "true" if f.stream else "false"

    def ended(
        count: float, ending: str, path: str, seconds: float, spread: float, served: str = "", error: str = ""
    ) -> None:
        if count > 0:
            p.observe(c.INFERENCE_DURATION, count, seconds, spread, 150.0, **common, lz_ending=ending, lz_path=path,
                      lz_served_by=served, lz_stream=stream, error_type=error,
                      gen_ai_response_model=f.model.name if ending in ("ok", "abandoned") else "")  # fmt: skip

    slow = f.model.seconds * s.slow * (1.4 if f.stream else 1.0)
    for mechanism, count in fast.items():
        ended(count, "ok", "fast", *FAST_SECONDS[mechanism], served=mechanism)
    ended(full, "ok", "full", slow, 0.55)
    for name, share in errors.items():
        ended(
            n * share,
            "error",
            "full",
            30.0 if "Timeout" in name else 3.0 if share > 0.1 else 0.6,
            0.5,
            error=name,
        )
    for ending, count in given_up.items():
        ended(count, ending, "full", slow * 0.5, 0.6)
    ended(cut, "incomplete", "full", slow * 0.6, 0.6, error="incomplete_stream")
    if f.stream:
        _stream(p, f, s, full, sum(fast.values()), tokens_out)
    _attempts(p, f, s, n, overloaded, ok + sum(given_up.values()) + cut)
    _money(p, f, s, full, fast, tokens_in, tokens_out)
    p.add(c.USAGE_MISSING_CALLS, given_up["abandoned"], **common, reason="ended_early")
    p.add(c.MALFORMED, n * s.malformed, **common, signal="event")
    p.set(c.CALL_ACTIVE, round(n / 30 * slow), **common)
    _operation(p, f, s, n, failed, sum(fast.values()), slow)


FAST_SECONDS = {
    "symbolic": (0.031, 0.12),
    "intent": (0.19, 0.3),
    "zeroing": (0.62, 0.35),
    "scheduling": (0.25, 0.3),
    "response_cache": (0.04, 0.4),
}


def _verdicts(p: Process, f: Flow, s: State, ok: float) -> dict[str, float]:
    """Count the mechanisms' verdicts; returns the calls that each served on the fast path."""
    fast: dict[str, float] = {}
    left = ok
    for mechanism in f.mechanisms:
        hit, fallback, bypass, reason = _shares(mechanism, s)
        n = left if mechanism in FAST_SECONDS else ok
        if hit is None:
            continue
        counts = {"hit": n * hit, "fallback": n * fallback, "bypass": n * bypass}
        counts["miss"] = (
            n - sum(counts.values()) if mechanism in ("symbolic", "response_cache", "scheduling") else 0
        )
        for verdict, count in counts.items():
            p.add(c.FAST_PATH_CALLS, count, **f.labels, mechanism=mechanism, verdict=verdict)
        if reason:
            p.add(c.FAST_PATH_FALLBACKS, counts["fallback"], **f.labels, mechanism=mechanism, reason=reason)
        if mechanism in FAST_SECONDS:
            fast[mechanism] = counts["hit"]
            left -= counts["hit"]
        DETAILS.get(mechanism, _nothing)(p, f, s, n, counts["hit"])
    return fast


def _shares(mechanism: str, s: State) -> tuple[float | None, float, float, str]:
    """Shares of hit, fallback and bypass, and the reason of fallbacks."""
    down = not s.layer_up
    return {
        "symbolic": (0.0 if down else s.symbolic_hit, s.symbolic_fallback, 0.0, "schema_invalid"),
        "pruning": (0.0 if down else 0.998, 0.998 if down else 0.002, 0.0, "rejected"),
        "intent": (0.0 if down else s.intent_ok, 1.0 if down else 1 - s.intent_ok, 0.0,
                   "silent" if down else s.intent_reason),
        "zeroing": (0.0 if down else 1 - s.zeroing_fallback, 1.0 if down else s.zeroing_fallback, 0.0,
                    "no_report" if down else "triggered"),
        "scheduling": (0.0 if down else s.served - 0.2, 0.8 if down else 0.95 - s.served, 0.05,
                       "served_standard"),
        "response_cache": (0.34, 0.0, 0.04, ""),
        "prompt_cache": (None, 0.0, 0.0, ""),
    }[mechanism]  # fmt: skip


def _nothing(p: Process, f: Flow, s: State, n: float, hits: float) -> None:
    return None


def _symbolic(p: Process, f: Flow, s: State, n: float, hits: float) -> None:
    for signal, share in (
        ("header", 1.0),
        ("zero_output", 1.0),
        ("input_match", 0.9),
        ("contradiction", 0.0002),
    ):
        p.add(c.SYMBOLIC_EVIDENCE, hits * share, **f.labels, signal=signal)
    for cold, share, median in (("false", 0.99, 0.021), ("true", 0.01, 0.14)):
        p.observe(c.ENGINE_DURATION, hits * share, median, 0.1, **f.labels, mechanism="symbolic", cold=cold)


def _pruning(p: Process, f: Flow, s: State, n: float, hits: float) -> None:
    if f.group == "control":
        return
    p.add(c.ORIGINAL_TOKENS, hits * f.tokens[0], **f.labels)
    p.add(c.PRUNED_TOKENS, hits * f.tokens[0] * s.pruned * 0.94, **f.labels)
    p.observe(c.REQUESTED_RATIO, hits, s.pruned, 0.05, 0.95, **f.labels)
    p.observe(c.CONTEXT_PRESERVATION, hits, 0.012, 0.4, **f.labels)


def _intent(p: Process, f: Flow, s: State, n: float, hits: float) -> None:
    for intent, share in (("deterministic", 0.55), ("creative", 0.2), ("balanced", 0.25)):
        p.add(c.INTENT_CALLS, n * share, **f.labels, intent=intent)
    p.add(c.INTENT_REPEATS, n * 0.2, **f.labels, intent="deterministic", result="same")
    p.add(c.INTENT_REPEATS, n * 0.2 * (0.00003 if s.intent_ok > 0.5 else 0.01), **f.labels, intent="deterministic",
          result="different")  # fmt: skip
    p.add(c.INTENT_REPEATS, n * 0.004, **f.labels, intent="creative", result="same")
    p.add(c.INTENT_REPEATS, n * 0.05, **f.labels, intent="creative", result="different")
    p.add(c.INTENT_TRANSITIONS, n * 0.1, **f.labels, changed="true")
    p.add(c.INTENT_TRANSITIONS, n * 0.5, **f.labels, changed="false")


def _zeroing(p: Process, f: Flow, s: State, n: float, hits: float) -> None:
    p.observe(c.ZEROING_PARAMS_RATIO, hits, s.zeroed, 0.13, 0.99, **f.labels)
    p.observe(c.ZEROING_CONFIDENCE, hits, 0.88 if s.zeroed < 0.7 else 0.61, 0.05, 0.99, **f.labels)
    p.add(c.ZEROING_LAYERS, hits * 80, **f.labels, state="all")
    p.add(c.ZEROING_LAYERS, hits * 80 * s.zeroed * 0.8, **f.labels, state="zeroed")
    p.add(c.MASK_EVENTS, hits * f.tokens[1] * 0.25, **f.labels)
    p.add(c.MASK_SWITCHES, hits * f.tokens[1] * 0.25 * (0.22 if s.zeroed < 0.7 else 0.01), **f.labels)


def _scheduling(p: Process, f: Flow, s: State, n: float, hits: float) -> None:
    p.add(c.SIMILAR_CALLS, n * 0.11, **f.labels)
    p.add(c.GHOST_ENTITIES, n * s.ghosts, **f.labels)


DETAILS = {"symbolic": _symbolic, "pruning": _pruning, "intent": _intent, "zeroing": _zeroing,
           "scheduling": _scheduling}  # fmt: skip


def _stream(p: Process, f: Flow, s: State, full: float, fast: float, tokens_out: int) -> None:
    first = (0.35 + f.model.seconds * 0.2) * s.slow
    by = next((m for m in f.mechanisms if m in FAST_SECONDS), "")
    for path, count, median, spread, served in (
        ("full", full, first, 0.35, ""),
        ("fast", fast, 0.06, 0.25, by),
    ):
        if count > 0:
            p.observe(
                c.TIME_TO_FIRST_TOKEN, count, median, spread, **f.labels, lz_path=path, lz_served_by=served
            )
            p.observe(c.TIME_TO_FIRST_CHUNK, count, median * 0.9, spread, **f.labels, lz_path=path)
            p.observe(c.TIME_PER_OUTPUT_CHUNK, count * tokens_out / 4, 4 / f.model.speed, 0.4, **f.labels,
                      lz_path=path)  # fmt: skip
            p.observe(c.OUTPUT_RATE, count, f.model.speed / s.slow * (1 if path == "full" else 4), 0.25, **f.labels,
                      lz_path=path)  # fmt: skip


def _attempts(p: Process, f: Flow, s: State, n: float, overloaded: float, answered: float) -> None:
    again = {"529": overloaded * 1.6, "429": s.rate_limited, "500": s.errors, "read_timeout": s.errors * 0.4}
    for status, share in again.items():
        p.add(c.ATTEMPTS, n * share * 1.2, **f.labels, status=status)
        p.add(c.CALL_RETRIES, n * share, **f.labels, reason=status)
    p.add(c.ATTEMPTS, answered, **f.labels, status="200")
    limit = {
        k: f.labels[k] for k in ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
    }
    for resource, most in (("requests", 4000.0), ("input_tokens", 2_000_000.0), ("output_tokens", 400_000.0)):
        left = s.headroom * {"requests": 1.0, "input_tokens": 0.8, "output_tokens": 0.95}[resource]
        p.set(c.RATE_LIMIT_LIMIT, most, **limit, resource=resource)
        p.set(c.RATE_LIMIT_REMAINING, round(most * left), **limit, resource=resource)
        p.set(c.RATE_LIMIT_RESET, round(60 * (1 - left)), **limit, resource=resource)


def _money(p: Process, f: Flow, s: State, full: float, fast: dict[str, float], tin: int, tout: int) -> None:
    usage = {**f.labels, "gen_ai_response_model": f.model.name, "gen_ai_token_modality": "text"}
    price_in, price_out = f.model.input_usd * s.price / 1e6, f.model.output_usd * s.price / 1e6
    one = tin * price_in + tout * price_out
    cached, written = 0.0, 0.0
    if "prompt_cache" in f.mechanisms:
        hit = full * s.cache_read
        cached, written = hit * tin * 0.78, (full - hit) * tin * 0.75
        p.add(c.FAST_PATH_CALLS, hit, **f.labels, mechanism="prompt_cache", verdict="hit")
        p.add(c.FAST_PATH_CALLS, full - hit, **f.labels, mechanism="prompt_cache", verdict="miss")
        for reason, share in (("first_use", 0.2), ("expired", 0.25), (s.miss_reason, 0.55)):
            p.add(c.PROMPT_CACHE_MISSES, (full - hit) * share, **f.labels, reason=reason)
        if f.model.provider == "anthropic":
            for ttl, share in (("5m", 0.8), ("1h", 0.2)):
                p.add(c.PROMPT_CACHE_WRITE_TOKENS, written * share, **f.labels, ttl=ttl)
            p.add(c.CACHE_WRITE_TOKENS, written, **usage)
            p.add(c.OVERSPENT_USD, written * price_in * 0.25, **f.labels, mechanism="prompt_cache")
        p.add(c.CACHE_READ_TOKENS, cached, **usage)
        p.add(c.SAVED_USD, cached * price_in * 0.9, **f.labels, mechanism="prompt_cache")
    ran = full + sum(v for k, v in fast.items() if k != "response_cache")
    p.add(c.INPUT_TOKENS, ran * tin, **usage)
    p.add(c.OUTPUT_TOKENS, (ran - fast.get("symbolic", 0.0)) * tout, **usage)
    if f.model.reasoning:
        p.add(c.REASONING_TOKENS, full * tout * f.model.reasoning, **usage)
    shares = {"symbolic": tin * price_in / 5 / one, "response_cache": 0.0, "scheduling": 0.72}
    cost = full * one - cached * price_in * 0.9
    for mechanism, count in fast.items():
        cost += count * one * shares.get(mechanism, 1.0)
        if mechanism in shares:
            p.add(c.SAVED_USD, count * one * (1 - shares[mechanism]), **f.labels, mechanism=mechanism)
    if "pruning" in f.mechanisms and f.group != "control":
        p.add(c.SAVED_USD, ran * tin * s.pruned * price_in, **f.labels, mechanism="pruning")
    p.add(c.COST_USD, cost * (1 - s.unpriced), **f.labels, gen_ai_response_model=f.model.name)
    p.add(c.COST_UNPRICED, ran * s.unpriced, **f.labels)


def _operation(p: Process, f: Flow, s: State, n: float, failed: float, fast: float, slow: float) -> None:
    if not f.route:
        return
    own = {"lz_route": f.route, "lz_group": f.group}
    stepped = failed * 0.7 if f.second else 0.0
    outcomes = {
        "fast": (fast, 0.1, 1.0),
        "fallback": (stepped, slow * 2.2, 3.0),
        "error": (failed - stepped, 4.0, 2.0),
    }
    outcomes["full"] = (n - sum(v[0] for v in outcomes.values()), slow, 1.0)
    for outcome, (count, seconds, calls) in outcomes.items():
        p.observe(c.OPERATION_DURATION, count, seconds, 0.5, 150.0, **own, outcome=outcome)
        p.observe(c.OPERATION_CALLS, count, calls, 0.0, **own, outcome=outcome)
    if stepped > 0:
        reason = "overloaded" if s.overloaded and f.model.provider == "anthropic" else "server_error"
        p.add(c.OPERATION_FALLBACKS, stepped, **own, **{"from": f.model.name, "to": f.second}, reason=reason)
    if f.group:
        quality = 0.955 * (1.0 if f.group == "control" else s.pruned_quality)
        p.observe(c.QUALITY, n * 0.2, quality, 0.012, 1.0, **own, metric="summary_f1")
        p.observe(c.QUALITY, n * 0.1, quality * 0.985, 0.02, 1.0, **own, metric="entity_recall")


def _touch(p: Process, f: Flow) -> None:
    """Counters of closed lists start at 0 with the first call, or with their mechanism."""
    f.touched = True
    for metric in c.ALL:
        if metric.starts_at_zero and metric.labels[: len(c.COMMON)] == tuple(a.label for a in c.COMMON):
            if metric.mechanism and metric.mechanism not in f.mechanisms:
                continue
            if metric in (c.FAST_PATH_FALLBACKS, c.FAST_PATH_CALLS, c.SAVED_USD, c.OVERSPENT_USD):
                for mechanism in f.mechanisms:
                    reasons = c.FALLBACK_REASONS.get(mechanism, ())
                    if metric is not c.FAST_PATH_FALLBACKS:
                        p.touch(metric, **f.labels, mechanism=mechanism)
                    for reason in reasons if metric is c.FAST_PATH_FALLBACKS else ():
                        p.touch(metric, **f.labels, mechanism=mechanism, reason=reason)
            else:
                p.touch(metric, **f.labels)


def idle(p: Process, s: State, n: float, version: str) -> None:
    """What a process counts about itself while ``n`` calls pass."""
    p.observe(c.INTERNAL_OVERHEAD, n * 0.05, 0.00009, 0.35)
    p.touch(c.INTERNAL_ERRORS)
    p.add(c.INTERNAL_ERRORS, n * s.internal, where="extract")
    for known in VERSIONS:
        if known == version or known == VERSIONS[0]:
            p.set(c.BUILD_INFO, 1.0 if known == version else math.nan, version=known, python_version="3.11.9",
                  httpx_version="0.28.1")  # fmt: skip


def embeddings(p: Process, labels: dict[str, str], n: float) -> None:
    """Embedding calls outside any operation."""
    common = {**labels, "gen_ai_operation_name": "embeddings", "gen_ai_provider_name": EMBEDDER.provider,
              "gen_ai_request_model": EMBEDDER.name}  # fmt: skip
    p.observe(c.GENAI_OPERATION_DURATION, n, EMBEDDER.seconds, 0.4, **common, lz_path="full", lz_stream="false",
              lz_ending="ok", gen_ai_response_model=EMBEDDER.name)  # fmt: skip
    p.add(c.ATTEMPTS, n, **common, status="200")
    usage = {**common, "gen_ai_response_model": EMBEDDER.name, "gen_ai_token_modality": "text"}
    p.add(c.INPUT_TOKENS, n * 300, **usage)
    p.add(c.COST_USD, n * 300 * EMBEDDER.input_usd / 1e6, **common, gen_ai_response_model=EMBEDDER.name)


def vendor(p: Process, s: State) -> None:
    """The gauges of the vendor's own endpoint (004)."""
    p.set(VENDOR_CACHE_HIT_RATE, s.shared, layer="zero")
    p.set(VENDOR_DECOMPRESSION_P95, s.decompression_ms, precision="fp16")
    p.set(VENDOR_SLICE_EFFICIENCY, 0.91 if s.shared > 0.3 else 0.79, block_type="anchor")
