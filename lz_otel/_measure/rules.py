"""Which number feeds which metric: the only place that says so. Pure functions, no state.

An ended call goes in, a list of measurements comes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lz_otel import catalogue as c
from lz_otel.mechanisms import ALL, REPLACES, REPLAYS
from lz_otel.model import Ending

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lz_otel.model import EndedCall

Row = tuple[Any, tuple[str, ...], Any]
_EFFECTS = {row.name: row.effect for row in ALL}
_MIN_RATE_SECONDS = 1e-3


def path_of(results: Iterable[Any]) -> tuple[str, str, bool]:
    """Return ``lz.path``, ``lz.served_by`` and whether a stored answer was sent again.

    A stored answer was there before any other mechanism could serve; mechanisms that shorten a full inference
    do not replace it.
    """
    served = ""
    for result in results:
        verdict = result.verdict
        if verdict is not None and verdict.decision == "hit":
            effect = _EFFECTS[verdict.mechanism]
            if effect == REPLAYS:
                return "fast", verdict.mechanism, True
            if effect == REPLACES:
                served = served or verdict.mechanism
    return ("fast", served, False) if served else ("full", "", False)


def attempt(common: tuple[str, ...], status: str, retry_reason: str | None) -> list[Row]:
    """Count one HTTP attempt that has ended."""
    rows: list[Row] = [(c.ATTEMPTS, (*common, status), 1.0)]
    if retry_reason is not None:
        rows.append((c.CALL_RETRIES, (*common, retry_reason), 1.0))
    return rows


def call(ended: EndedCall, legacy: bool = False) -> list[Row]:
    """Count one call that has ended."""
    facts, common = ended.facts, ended.common
    stream = "true" if facts.stream else "false"
    shared = (
        *common,
        ended.response_model,
        ended.error_type,
        ended.path,
        ended.served_by,
        stream,
        ended.ending,
    )
    duration = max(0.0, ended.ended_at - ended.started_at)
    metric = c.INFERENCE_DURATION if facts.inference else c.GENAI_OPERATION_DURATION
    rows: list[Row] = [(metric, shared, duration)] if ended.timed else []
    if legacy and ended.timed:
        rows.append((c.LEGACY_GENAI_OPERATION_DURATION, (*shared, common[1]), duration))
    if not ended.stored:
        if facts.stream:
            _stream(ended, rows)
        _usage(ended, rows, legacy)
    if ended.results:
        _verdicts(ended, rows)
    _money(ended, rows)
    if facts.malformed:
        rows.extend((c.MALFORMED, (*common, signal), 1.0) for signal in facts.malformed)
    return rows


def _stream(ended: EndedCall, rows: list[Row]) -> None:
    facts, common = ended.facts, ended.common
    on_path = (*common, ended.path)
    if ended.first_byte_at is not None and ended.status is not None and ended.status < 400:
        rows.append((c.TIME_TO_FIRST_CHUNK, on_path, max(0.0, ended.first_byte_at - ended.started_at)))
    first, last = facts.first_content_at, facts.last_content_at
    if first is None or last is None:
        return
    rows.append((c.TIME_TO_FIRST_TOKEN, (*on_path, ended.served_by), max(0.0, first - ended.started_at)))
    visible = facts.first_visible_at
    if visible is not None:
        rows.append((c.TIME_TO_FIRST_VISIBLE, on_path, max(0.0, visible - ended.started_at)))
    gaps = facts.chunk_gaps
    if gaps is not None and gaps[2]:
        rows.append((c.TIME_PER_OUTPUT_CHUNK, on_path, tuple(gaps)))
    if facts.output_final and facts.output_tokens and last - first >= _MIN_RATE_SECONDS:
        rows.append((c.OUTPUT_RATE, on_path, facts.output_tokens / (last - first)))


def _usage(ended: EndedCall, rows: list[Row], legacy: bool) -> None:
    facts = ended.facts
    base = (*ended.common, ended.response_model)
    if facts.inference or facts.input_tokens is not None:
        text = (*base, "text")
        whole = facts.input_tokens
        if whole is not None:
            _by_modality(rows, c.INPUT_TOKENS, text, whole, facts.input_tokens_by_modality)
        if facts.output_tokens is not None and facts.output_final:
            _by_modality(rows, c.OUTPUT_TOKENS, text, facts.output_tokens, facts.output_tokens_by_modality)
            if facts.reasoning_tokens:
                rows.append((c.REASONING_TOKENS, text, float(facts.reasoning_tokens)))
        read, written = facts.cache_read_tokens, facts.cache_write_tokens
        if read is not None:
            rows.append((c.CACHE_READ_TOKENS, text, float(read)))
        if written is not None:
            rows.append((c.CACHE_WRITE_TOKENS, text, float(written)))
    if legacy:
        for kind, tokens in (("input", facts.input_tokens), ("output", facts.output_tokens)):
            if tokens is not None and (kind == "input" or facts.output_final):
                rows.append((c.LEGACY_TOKEN_USAGE, (*base, ended.common[1], kind), float(tokens)))
    if facts.awaited:
        rows.append(usage_awaited(ended.common, facts.awaited))
    elif (
        facts.llm_call
        and not (facts.usage_seen or facts.free)
        # Else it was told, or failed elsewhere, where nothing is billed
        and (ended.attempts or (not ended.timed and ended.ending == Ending.OK))
    ):
        reason = usage_missing_reason(ended)
        if reason is not None:
            rows.append((c.USAGE_MISSING_CALLS, (*ended.common, reason), 1.0))


def usage_awaited(common: tuple[str, ...], calls: int) -> Row:
    """Count calls whose usage another exchange will state."""
    return c.USAGE_MISSING_CALLS, (*common, "later"), float(calls)


def _by_modality(
    rows: list[Row], metric: Any, text: tuple[str, ...], total: int, split: dict[str, int] | None
) -> None:
    """Count each token once: what the provider splits goes to its modality, the rest is text."""
    rest = total
    if split:
        for modality, tokens in split.items():
            if modality != "text" and 0 < tokens <= rest:
                rows.append((metric, (*text[:-1], modality), float(tokens)))
                rest -= tokens
    rows.append((metric, text, float(rest)))


def usage_missing_reason(ended: EndedCall) -> str | None:
    """Return why a call has no usage; ``None`` when it has, or when no model ran for it."""
    facts = ended.facts
    if facts.usage_seen or ended.status is None or ended.status >= 300:
        return None
    if facts.too_large:
        return "too_large"
    if ended.encoding_failed and ended.ending in (Ending.OK, Ending.ERROR):
        return "compressed"
    if ended.ending != Ending.OK:
        return "ended_early"
    if "body" in facts.malformed or "usage" in facts.malformed or "encoding" in facts.malformed:
        return "malformed"
    if facts.stream and facts.usage_requested is False:
        return "not_requested"
    return "not_sent"


def _verdicts(ended: EndedCall, rows: list[Row]) -> None:
    common = ended.common
    for result in ended.results:
        verdict = result.verdict
        if verdict is not None:
            rows.append((c.FAST_PATH_CALLS, (*common, verdict.mechanism, verdict.decision), 1.0))
            if verdict.decision == "fallback":
                rows.append(
                    (c.FAST_PATH_FALLBACKS, (*common, verdict.mechanism, verdict.reason or "other"), 1.0)
                )
            if verdict.engine_seconds is not None:
                cold = "true" if verdict.cold else "false"
                rows.append((c.ENGINE_DURATION, (*common, verdict.mechanism, cold), verdict.engine_seconds))
            saved = result.saved_usd
            if saved:
                metric = c.SAVED_USD if saved > 0 else c.OVERSPENT_USD
                rows.append((metric, (*common, verdict.mechanism), abs(saved)))
        for metric, extra, value in result.measurements:
            rows.append((metric, (*common, *extra), value))


def _money(ended: EndedCall, rows: list[Row]) -> None:
    cost = ended.cost
    if cost is not None:
        rows.append((c.COST_USD, (*ended.common, ended.response_model), cost.usd))
    elif ended.unpriced:
        rows.append((c.COST_UNPRICED, (*ended.common, ended.unpriced), 1.0))


def zeros(
    common: tuple[str, ...], awake: Iterable[str], *, first: bool
) -> Iterable[tuple[Any, list[tuple[str, ...]]]]:
    """Return the counters that start at 0: of every call (``first``), and of newly awake mechanisms."""
    mechanisms = tuple(awake)
    for metric in c.ALL:
        if not metric.starts_at_zero or metric.attributes[: len(c.COMMON)] != c.COMMON:
            continue
        extra = metric.attributes[len(c.COMMON) :]
        of_mechanism = metric.mechanism or (extra and extra[0] is c.MECHANISM)
        if of_mechanism and metric.mechanism and metric.mechanism not in mechanisms:
            continue
        if not of_mechanism and not first:
            continue
        if extra and extra[0] is c.MECHANISM:
            sets = [(*common, m, *rest) for m in mechanisms for rest in _closed(metric, m)]
        else:
            sets = [(*common, *values) for values in _product([a.values for a in extra])]
        if sets:
            yield metric, sets


def _closed(metric: Any, mechanism: str) -> list[tuple[str, ...]]:
    if metric is c.FAST_PATH_CALLS:
        return [(v,) for v in c.VERDICTS]
    if metric is c.FAST_PATH_FALLBACKS:
        return [(r,) for r in c.FALLBACK_REASONS.get(mechanism, ())]
    return [()]


def _product(lists: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    out: list[tuple[str, ...]] = [()]
    for values in lists:
        out = [(*head, value) for head in out for value in values]
    return out
