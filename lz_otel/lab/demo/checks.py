"""The truth beside the metrics: what the simulator really did, and what the store holds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel import catalogue as c

if TYPE_CHECKING:
    from collections.abc import Set

    from lz_otel._measure.store import Store

_INFERENCE = ("messages", "chat", "responses")
CALLS = (*_INFERENCE, "embeddings")
_GONE = "client_closed"


class Check(NamedTuple):
    """One figure, from both sides."""

    name: str
    measured: float
    truth: float

    @property
    def equal(self) -> bool:
        """Return whether the two agree (sums of floats to a billionth)."""
        return abs(self.measured - self.truth) <= 1e-9 * max(1.0, abs(self.truth))


def compare(
    store: Store,
    records: list[dict[str, Any]],
    given_up: Set[str] = frozenset(),
    stood_in: Set[str] = frozenset(),
) -> list[Check]:
    """Return all figures that both sides know.

    Args:
        store: the metrics.
        records: the simulator's truth log.
        given_up: calls that the application cancelled (losers of hedges). The two sides see the end of
            such a call at different moments, so it may be in a figure as a whole, in part, or not.
        stood_in: hedged attempts for which the application gave up the other one: only it knows.
    """
    store.snapshot()  # brings in what is still outstanding
    cancelled = store.value(c.INFERENCE_DURATION, lz_ending="cancelled").count
    whole = [r for r in records if r.get("call", "") not in given_up and r["ending"] != _GONE]
    kept = _figures(store, whole, fallbacks(records, stood_in))
    lost = _figures(store, [r for r in records if r.get("call", "") in given_up], 0)
    checks = [
        Check("calls", store.value(c.INFERENCE_DURATION).count - cancelled, kept["calls"].truth),
        *(
            Check(k.name, k.measured, _within(k.measured, k.truth, lost[k.name].truth))
            for k in kept.values()
            if k.name != "calls"
        ),
        Check("calls given up", cancelled, min(cancelled, len(given_up))),
    ]
    return [check for check in checks if check.measured or check.truth]


def fallbacks(records: list[dict[str, Any]], stood_in: Set[str]) -> int:
    """Return how many hedged pairs were answered the full way while one of them was given up."""
    last = {r.get("call", ""): r["path"] for r in records}
    return sum(last.get(name) == "full" for name in stood_in)


def _within(measured: float, kept: float, more: float) -> float:
    """Return the truth of a figure to which calls given up may have added up to so much."""
    return min(max(measured, min(kept, kept + more)), max(kept, kept + more))


def _figures(store: Store, records: list[dict[str, Any]], given_up: int) -> dict[str, Check]:
    kept = list(_calls([r for r in records if r.get("api") in _INFERENCE]).values())
    checks = [
        Check("calls", 0, len(kept)),
        *_by_ending(store, kept),
        *_attempts(store, records),
        Check("retries", store.value(c.CALL_RETRIES), sum(len(a) - 1 for a in _calls(records).values())),
        *_tokens(store, records),
        *_verdicts(store, kept, given_up),
    ]
    return {check.name: check for check in checks}


def _calls(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the attempts of each call, in order; a count of tokens bears the name of its call."""
    out: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record.get("api") in CALLS:
            out.setdefault(record.get("call", ""), []).append(record)
    return {name: sorted(attempts, key=lambda r: r["ordinal"]) for name, attempts in out.items()}


def ending_of(record: dict[str, Any]) -> str:
    """Return how a call ended for its client, in the contract's words."""
    ending = record["ending"]
    if ending == "malformed":  # a plain body is read to its end; of a stream the SDK leaves off
        return "abandoned" if record.get("stream") else "ok"
    return {"complete": "ok", "no_stop": "incomplete"}.get(ending, "error")


def _by_ending(store: Store, kept: list[list[dict[str, Any]]]) -> list[Check]:
    truth = Counter(ending_of(attempts[-1]) for attempts in kept)
    return [
        Check(f"calls ended {e}", store.value(c.INFERENCE_DURATION, lz_ending=e).count, truth[e])
        for e in ("ok", "error", "incomplete", "abandoned")
    ]


def _attempts(store: Store, records: list[dict[str, Any]]) -> list[Check]:
    """HTTP attempts by status; those cut by a broken connection have none on our side."""
    seen = [r for r in records if r.get("api") in CALLS]
    whole = ("complete", "error", "stream_error", "no_stop", "malformed")
    truth = Counter(str(r["status"]) for r in seen if r["ending"] in whole)
    truth["broken connection"] = sum(r["ending"] not in whole for r in seen)
    measured = {s: store.value(c.ATTEMPTS, status=s) for s in c.STATUSES if s != "cancelled"}
    broken = sum(v for s, v in measured.items() if s in c.TRANSPORT_ERRORS)
    checks = [Check(f"attempts {s}", v, truth[s]) for s, v in measured.items() if s not in c.TRANSPORT_ERRORS]
    return [*checks, Check("attempts cut off", broken, truth["broken connection"])]


def _tokens(store: Store, records: list[dict[str, Any]]) -> list[Check]:
    def total(field: str, sent: tuple[str, ...]) -> int:
        return sum(r.get(field, 0) for r in records if r.get("usage_sent", "none") in sent)

    started = ("full", "start")
    rows = (
        ("input tokens", c.INPUT_TOKENS, "input_tokens", started),
        ("read from prompt cache", c.CACHE_READ_TOKENS, "cache_read_tokens", started),
        ("written to prompt cache", c.CACHE_WRITE_TOKENS, "cache_write_tokens", started),
        ("output tokens", c.OUTPUT_TOKENS, "output_tokens", ("full",)),
        ("reasoning tokens", c.REASONING_TOKENS, "reasoning_tokens", ("full",)),
    )
    return [Check(name, store.value(metric), total(field, sent)) for name, metric, field, sent in rows]


def _verdicts(store: Store, kept: list[list[dict[str, Any]]], given_up: int) -> list[Check]:
    """Return verdicts of the mechanisms, where the answer shows them to the client."""
    truth: Counter[tuple[str, str]] = Counter({("symbolic", "fallback"): given_up})
    for attempts in kept:
        for name, found in attempts[-1].get("mechanisms", {}).items():
            if found["verdict"] and found.get("visible", True):
                truth[name, found["verdict"]] += 1
    return [
        Check(f"{m}: {v}", store.value(c.FAST_PATH_CALLS, mechanism=m, verdict=v), truth[m, v])
        for m in c.MECHANISMS
        for v in c.VERDICTS
    ]
