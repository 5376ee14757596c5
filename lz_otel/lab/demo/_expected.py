"""What the metrics must say of each call, by the simulator's truth log and the application's own plan."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from lz_otel import catalogue as c
from lz_otel.lab.demo._money import TruthPrices
from lz_otel.lab.demo._outcome import CallOutcome
from lz_otel.lab.demo.checks import CALLS, ending_of

if TYPE_CHECKING:
    from collections.abc import Set

    from lz_otel.lab.simulator._traffic_schema import Traffic
    from lz_otel.lab.simulator.traffic import Planned

_LOST = ("disconnect", "client_closed")  # nothing of the answer arrived
_WHOLE_TEXT = ("complete", "no_stop")
_SUFFIXES = ("-again", "-fast", "-standard")
_TOLERANCE = 3  # tokens; article 000 (A)


def body_of(planned: Planned) -> bytes:
    """Return what makes two calls the same request."""
    return msgspec.json.encode(
        {k: v for k, v in planned.kwargs.items() if k != "extra_headers"}, order="sorted"
    )


class Expected:
    """Makes the truth of a run comparable, call by call.

    Args:
        records: the truth log.
        plans: the planned calls by name.
        traffic: the routes, which say what is asked for.
        cut_short: calls that the application cancelled; whether it had seen a hit of ``symbolic``.
        busy: calls that ended at more than 50 similar ones per second, which only the client can know.
    """

    def __init__(
        self,
        records: list[dict[str, Any]],
        plans: dict[str, Planned],
        traffic: Traffic,
        cut_short: dict[str, bool],
        busy: Set[str] = frozenset(),
    ) -> None:
        self._busy = busy
        self._plans = plans
        self._ratios = {route.name: route.prune_ratios for route in traffic.routes}
        self._prices = TruthPrices()
        self._hit_before: set[bytes] = set()
        self.attempts: dict[str, list[dict[str, Any]]] = {}
        self._counted: dict[str, int] = {}
        for record in sorted(records, key=lambda r: r["ordinal"]):
            if record["api"] in CALLS:
                self.attempts.setdefault(record["call"], []).append(record)
            elif record["api"] == "count_tokens" and record["status"] == 200:
                self._counted[record["call"]] = record["counted_tokens"]
        self.calls: dict[str, CallOutcome] = {}
        # In the order in which the last attempts arrived: who hit a fingerprint first depends on it
        for name, attempts in sorted(self.attempts.items(), key=lambda item: item[1][-1]["ordinal"]):
            if name not in cut_short:
                self.calls[name] = self._call(name, attempts[-1])
            elif cut_short[name]:
                self._hit_before.add(self._body(name))
        self._sessions()

    def planned(self, name: str) -> Planned | None:
        """Return the plan of a call, or of the call that it repeats or hedges."""
        for suffix in ("", *_SUFFIXES, *(a + b for a in _SUFFIXES for b in _SUFFIXES)):
            if name.endswith(suffix):
                found = self._plans.get(name.removesuffix(suffix))
                if found is not None:
                    return found
        return None

    def _body(self, name: str) -> bytes:
        plan = self.planned(name)
        return b"" if plan is None else body_of(plan)

    # --- one call ---------------------------------------------------------------------------

    def _call(self, name: str, r: dict[str, Any]) -> CallOutcome:
        arrived = r["status"] == 200 and r["ending"] not in _LOST
        out = CallOutcome(ending_of(r), r["path"], r["served_by"])
        if not arrived:
            out.path, out.served_by = "full", ""
        replayed = r["usage_sent"] in ("replayed", "zero")
        answered = arrived and not replayed  # by the provider
        shown = {m: v for m, v in r["mechanisms"].items() if v.get("visible", True) and v["verdict"]}
        out.verdicts = {m: (v["verdict"], v.get("reason")) for m, v in shown.items()}
        if answered and r["api"] == "messages":
            # Where no symbolic engine stands, every answer is one that it has not given
            out.verdicts.setdefault("symbolic", ("miss", None))
        for mechanism, found in shown.items():
            if found["verdict"] == "fallback":
                out.add(c.FAST_PATH_FALLBACKS, 1.0, mechanism, found["reason"])
            also = found.get("facts", {}).get("also")
            if also:
                out.add(c.FAST_PATH_FALLBACKS, 1.0, mechanism, also)
        facts = {m: v.get("facts", {}) for m, v in r["mechanisms"].items()}
        plan = self.planned(name)
        if arrived:
            self._usage(out, r, replayed=replayed)
        if replayed:
            self._stored(out, r, facts.get("response_cache", {}))
        elif arrived and r["usage_sent"] in ("full", "start"):
            self._money(out, name, r, shown, facts)
        if answered:
            self._symbolic(out, name, r, shown.get("symbolic"))
            self._pruning(out, r, shown.get("pruning"))
            self._zeroing(out, r, facts.get("zeroing", {}))
            self._scheduling(out, r)
        else:  # the scheduler never saw it
            out.unknown.add(c.SIMILAR_CALLS.name)
        if plan is not None:
            self._asked(out, r, plan, facts.get("intent", {}), replayed=replayed)
        for signal in r["malformed"] if arrived else ():
            out.add(c.MALFORMED, 1.0, signal)
        if r["fault"] == "malformed_json":
            out.add(c.MALFORMED, 1.0, "event" if r["stream"] else "body")
        return out

    def _usage(self, out: CallOutcome, r: dict[str, Any], *, replayed: bool) -> None:
        sent = r["usage_sent"]
        if sent in ("full", "start"):
            out.add(c.INPUT_TOKENS, r["input_tokens"])
            out.add(c.CACHE_READ_TOKENS, r["cache_read_tokens"])
            out.add(c.CACHE_WRITE_TOKENS, r["cache_write_tokens"])
            if r["api"] == "messages":
                out.add(c.PROMPT_CACHE_WRITE_TOKENS, r["cache_write_5m_tokens"], "5m")
                out.add(c.PROMPT_CACHE_WRITE_TOKENS, r["cache_write_1h_tokens"], "1h")
        if sent == "full":
            out.add(c.OUTPUT_TOKENS, r["output_tokens"])
            out.add(c.REASONING_TOKENS, r["reasoning_tokens"])
        elif not replayed and r["api"] != "embeddings":
            early = out.ending in ("error", "incomplete", "abandoned")
            out.add(c.USAGE_MISSING_CALLS, 1.0, "ended_early" if early else "malformed")

    def _money(
        self, out: CallOutcome, name: str, r: dict[str, Any], shown: dict[str, Any], facts: dict[str, Any]
    ) -> None:
        prices = self._prices
        # A stream that broke stated its first output token at its start: a lower bound, which is priced
        output = r["output_tokens"] if r["usage_sent"] == "full" else min(1, r["output_tokens"])
        bill = prices.bill(r["model"], {**r, "output_tokens": output})
        if bill is None:
            out.add(c.COST_UNPRICED, 1.0)
            return
        usd = bill.usd
        if "prompt_cache" in shown:
            less = bill.full - bill.usd
            out.add(c.SAVED_USD if less > 0 else c.OVERSPENT_USD, float(abs(less)), "prompt_cache")
        plain = prices.input_price(r["model"], r["input_tokens"]) or Decimal(0)
        if shown.get("symbolic", {}).get("verdict") == "hit":
            usd = plain * prices.rules["symbolic_input"]
            less = bill.usd - usd  # a prompt that is cheap from the cache costs more by this rule
            out.add(c.SAVED_USD if less > 0 else c.OVERSPENT_USD, float(abs(less)), "symbolic")
        elif shown.get("scheduling", {}).get("verdict") == "hit":
            rule = "scheduling_long" if r["input_tokens"] > prices.rules["long_above"] else "scheduling_short"
            less = bill.usd * prices.rules["scheduling_similar" if name in self._busy else rule]
            usd = bill.usd - less
            out.add(c.SAVED_USD, float(less), "scheduling")
        pruned = facts.get("pruning", {}).get("pruned", 0)
        if pruned and shown.get("pruning", {}).get("verdict") == "hit":
            out.add(c.SAVED_USD, float(prices.input_price(r["model"], pruned) or 0), "pruning")
        out.add(c.COST_USD, float(usd))

    def _stored(self, out: CallOutcome, r: dict[str, Any], stored: dict[str, Any]) -> None:
        """Count what a stored answer saved: what it cost when it was made."""
        if r["usage_sent"] != "replayed":
            return
        bill = self._prices.bill(r["model"], {**stored, "cache_write_1h_tokens": 0})
        if bill is not None:
            out.add(c.SAVED_USD, float(bill.usd), "response_cache")

    # --- the families -----------------------------------------------------------------------

    def _symbolic(self, out: CallOutcome, name: str, r: dict[str, Any], shown: dict[str, Any] | None) -> None:
        if shown is None:
            return
        hit = shown["verdict"] == "hit"
        if hit:
            out.add(c.SYMBOLIC_EVIDENCE, 1.0, "header")
            body = self._body(name)
            cold = body not in self._hit_before
            self._hit_before.add(body)
            seconds = shown["facts"]["engine_ms"] / 1000
            out.add(c.ENGINE_DURATION, seconds, "symbolic", "true" if cold else "false")
        if r["usage_sent"] != "full" or r["api"] != "messages":
            return
        if hit and r["output_tokens"] > 0:
            out.add(c.SYMBOLIC_EVIDENCE, 1.0, "contradiction")
        if r["output_tokens"] == 0 and r["would_output_tokens"] > 0:
            out.add(c.SYMBOLIC_EVIDENCE, 1.0, "zero_output")
            plan = self.planned(name)
            counted = None if plan is None else self._counted.get(plan.call)
            if counted is not None and abs(counted - r["input_tokens"]) <= _TOLERANCE:
                out.add(c.SYMBOLIC_EVIDENCE, 1.0, "input_match")

    def _pruning(self, out: CallOutcome, r: dict[str, Any], shown: dict[str, Any] | None) -> None:
        if shown is None:
            return
        facts = shown.get("facts", {})
        counted = shown["verdict"] == "fallback" and shown["reason"] == "nothing_pruned"
        if shown["verdict"] == "hit" or counted:
            pruned = facts.get("pruned", 0)
            out.add(c.PRUNED_TOKENS, pruned)
            out.add(c.ORIGINAL_TOKENS, r["input_tokens"] + pruned)
        if "preservation_ms" in facts:
            out.add(c.CONTEXT_PRESERVATION, facts["preservation_ms"] / 1000)

    def _zeroing(self, out: CallOutcome, r: dict[str, Any], facts: dict[str, Any]) -> None:
        if "total_layers" in facts:
            out.add(c.ZEROING_PARAMS_RATIO, facts["zeroed_params_ratio"])
            out.add(c.ZEROING_CONFIDENCE, facts["routing_confidence"])
            out.add(c.ZEROING_LAYERS, facts["total_layers"], "all")
            out.add(c.ZEROING_LAYERS, facts["zeroed_layers"], "zeroed")
        if not r["stream"]:
            return
        if r["ending"] in _WHOLE_TEXT:
            out.add(c.MASK_EVENTS, facts.get("mask_events", 0))
            out.add(c.MASK_SWITCHES, facts.get("mask_switches", 0))
        else:  # how far the client got is not in the log
            out.unknown.update((c.MASK_EVENTS.name, c.MASK_SWITCHES.name, c.MALFORMED.name))

    def _scheduling(self, out: CallOutcome, r: dict[str, Any]) -> None:
        if r["similar"]:
            out.add(c.SIMILAR_CALLS, 1.0)
        if r["ghosts"] and r["ending"] in _WHOLE_TEXT:
            out.add(c.GHOST_ENTITIES, r["ghosts"])

    # --- what the application asked for -------------------------------------------------------

    def _asked(
        self, out: CallOutcome, r: dict[str, Any], plan: Planned, intent: dict[str, Any], *, replayed: bool
    ) -> None:
        if plan.intent:
            out.add(c.INTENT_CALLS, 1.0, plan.intent)
            repeat = intent.get("repeat")
            if repeat in ("same", "different") and r["ending"] == "complete":
                out.add(c.INTENT_REPEATS, 1.0, plan.intent, repeat)
        ratio = self._ratios.get(plan.route, {}).get(plan.group or "all")
        if ratio is not None and not replayed:
            out.add(c.REQUESTED_RATIO, ratio)

    def _sessions(self) -> None:
        """Count changes of intent within a session, in the order of its turns."""
        before: dict[str, str] = {}
        for plan in sorted(self._plans.values(), key=lambda p: p.number):
            out = self.calls.get(plan.call)
            if out is not None and plan.intent and plan.session:
                last = before.setdefault(plan.session, "")
                before[plan.session] = plan.intent
                if last:
                    out.add(c.INTENT_TRANSITIONS, 1.0, "true" if last != plan.intent else "false")
