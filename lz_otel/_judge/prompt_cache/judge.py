"""Mechanism ``prompt_cache``: part of the input was read from the provider's prompt cache (D).

Anthropic: tokens read -> hit; else tokens written -> miss; else, when the request has a
``cache_control``, miss. OpenAI and others with an automatic cache: cached tokens -> hit; at least
1024 input tokens and none cached -> miss. Without a statement of the provider there is no verdict.

Why a miss: the vendor's own diagnosis where it gives one; else by following the cache from outside
(`explicit`, `automatic`), by digests only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel._extract.request import Fields
from lz_otel._ground.memory import BoundedMap
from lz_otel._judge.base import Judge
from lz_otel._judge.prompt_cache.automatic import MINIMUM, AutomaticCache, flatten
from lz_otel._judge.prompt_cache.digest import Digester, PromptDigests, Top, decode
from lz_otel._judge.prompt_cache.explicit import ExplicitCache, Place, Seen, minimum_tokens
from lz_otel._judge.prompt_cache.lineage import MAX_ROUTES, FirstUse
from lz_otel._judge.result import MetricRow, Result
from lz_otel.model import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel.model import EndedCall, Facts, Request

MAX_BODY = 4 << 20
"""Longest request body that is digested, bytes (the vendor's own limit)."""

# The vendors' diagnoses (D) -> our closed list. Those that say that there is none
# (``unavailable``, ``previous_message_not_found``, ``comparison_response_not_found``) are not here.
DIAGNOSES = {
    # Anthropic, diagnostics.cache_miss_reason.type
    "model_changed": "model_changed", "tools_changed": "tools_changed", "system_changed": "system_changed",
    "messages_changed": "history_changed",
    # OpenAI, prompt_cache_diagnostics.cache_miss.reason
    "input_changed": "history_changed", "context_compacted": "history_changed",
    "prompt_cache_key_changed": "unknown", "text_format_changed": "unknown", "verbosity_changed": "unknown",
    "reasoning_effort_changed": "unknown", "service_tier_changed": "unknown",
}  # fmt: skip
_NO_DIAGNOSIS = ("unavailable", "previous_message_not_found", "comparison_response_not_found", "cache_hit")
# Providers whose cache has breakpoints, whatever the model.
_EXPLICIT = frozenset({"anthropic", "aws.bedrock"})
# Providers whose automatic cache is OpenAI's.
_OPENAI = frozenset({"openai", "azure.ai.openai"})
_OPENAI_MODELS = ("gpt-", "chatgpt-", "o1", "o3", "o4")  # behind a gateway whose host has no name
# Their JSON leaves out a count that is 0, so absent means none (D, protobuf JSON).
_ABSENT_IS_ZERO = frozenset({"gcp.gemini", "gcp.vertex_ai", "gcp.gen_ai"})
_NO_CACHE = ("gemini-1", "gemini-2.0")  # models older than the automatic cache
_HIT = Verdict("prompt_cache", "hit")
_tuple = tuple.__new__  # a call of a NamedTuple takes twice as long, and this one is made for every call
_NO_VERDICT = ""  # the word cache_control stood in a text, the request has no breakpoint
# Keys that change every hour or with every request tell nothing about the workspace.
_PASSING_KEYS = ("Bearer ey", "Bearer ya29.", "AWS4-HMAC")


class PromptCacheJudge(Judge):
    """As the module says. Nothing is asked of the user, so the mechanism has no marker of its own.

    What it cannot know: what other processes write, read or keep alive; entries that the provider
    drops early; Anthropic's rules that depend on the model (thinking, effort). Then the reason is
    ``unknown``.

    Memory: digests and times of 16,384 prefixes and of the last 64 requests of 256 routes, below 16 MB.

    Attributes:
        clock: makes the provider's seconds of a time of ours (tests of a provider whose time is sped up).
    """

    NAME = "prompt_cache"
    ASKED_ALWAYS = True

    def prepare(self) -> None:
        """Make the memory, as the class says."""
        self.clock: Callable[[float], float] | None = None
        self._digester = Digester()
        self._places: BoundedMap[int, Place] = BoundedMap(4 * MAX_ROUTES)
        self._explicit, self._automatic, self._others = ExplicitCache(), AutomaticCache(), FirstUse()

    def judge(self, call: EndedCall) -> Result | None:
        """Conclude as the module says. ``saved_usd`` is negative where writing cost more than reading."""
        facts = call.facts
        status = call.status  # as `succeeded` and `is_claude`, without a call: nearly all calls come by here
        if not facts.llm_call or not facts.inference or status is None or not 200 <= status < 300:
            return None
        read = facts.cache_read_tokens or 0
        written = facts.cache_write_tokens
        if written is None:
            written = (facts.cache_write_5m_tokens or 0) + (facts.cache_write_1h_tokens or 0)
        model = facts.request_model or facts.response_model or ""
        explicit = facts.provider in _EXPLICIT or "claude" in model.lower()
        if not read and not written and not _missed(call, explicit=explicit):
            return None
        why = self._explicit_reason if explicit else self._automatic_reason
        reason = why(call, read, written)
        if reason == _NO_VERDICT:
            return None
        diagnosis = facts.cache_diagnosis
        if diagnosis is not None and diagnosis not in _NO_DIAGNOSIS:
            reason = DIAGNOSES.get(diagnosis, "unknown")
        rows: tuple[MetricRow, ...] = ()
        if explicit and written:
            # No split by lifetime: 5 minutes, the default.
            hour = min(facts.cache_write_1h_tokens or 0, written)
            rows = tuple(
                (c.PROMPT_CACHE_WRITE_TOKENS, (ttl,), float(tokens))
                for ttl, tokens in (("5m", written - hour), ("1h", hour))
                if tokens
            )
        if read:
            return _tuple(Result, (_HIT, rows, self._saved(call)))
        reason = reason or "unknown"
        rows += ((c.PROMPT_CACHE_MISSES, (reason,), 1.0),)
        return Result(Verdict(self.NAME, "miss", reason), rows, self._saved(call))

    def _saved(self, call: EndedCall) -> float | None:
        if self.prices is None:
            return None
        cost = call.cost = self.prices.price(call.facts, self.now(), call.request)
        if cost is None or cost.full_usd is None:
            return None
        return cost.prompt_cache_saved_usd - cost.prompt_cache_overspent_usd

    def _explicit_reason(self, call: EndedCall, read: int, written: int) -> str | None:
        """Return the reason of a miss; a hit is followed too, and has none."""
        facts = call.facts
        nothing = not read and not written
        if not self.miss_reasons:
            least, _ = minimum_tokens(_bare(facts.request_model), facts.provider)
            return "below_minimum" if nothing and (facts.input_tokens or 0) < least else None
        request = call.request
        top = facts.request_fields  # what the extract stage has decoded holds the same slices
        if type(top) is not Fields or not request.path.endswith("/v1/messages"):
            top = _decoded(request)
        prompt = None if top is None else self._digester.prompt(top)
        if prompt is None:
            return None
        if not prompt.marks:
            return _NO_VERDICT if nothing else None
        seen = self._seen(call, read, written)
        if nothing:
            self._explicit.passed(seen, prompt)
            return _below_minimum(facts, prompt, *seen.place.minimum)
        return self._explicit.follow(seen, prompt)

    def _automatic_reason(self, call: EndedCall, read: int, written: int) -> str | None:
        """Return the reason, as `_explicit_reason` does."""
        facts = call.facts
        tokens = facts.input_tokens or 0
        if not self.miss_reasons or tokens < MINIMUM:
            return None
        seen = self._seen(call, read, written)
        named = facts.provider == "other" and _bare(facts.request_model).startswith(_OPENAI_MODELS)
        if facts.provider not in _OPENAI and not named:
            # Lifetimes and steps of other vendors are not documented: only a first use is sure.
            place = seen.place
            return self._others.reason(place.line, seen.start, seen.first, place.model)
        top = _decoded(call.request)
        flat = None if top is None else flatten(top)
        return None if flat is None else self._automatic.follow(seen, flat, tokens)

    def _seen(self, call: EndedCall, read: int, written: int) -> Seen:
        facts = call.facts
        host, workspace = call.request.host, _workspace(call)
        name = hash((facts.provider, host, workspace, facts.request_model, call.route))
        place = self._places.get(name)
        if place is None:
            scope, model = hash((facts.provider, host, workspace)), hash(facts.request_model)
            minimum = minimum_tokens(_bare(facts.request_model), facts.provider)
            place = Place(scope, model, minimum, hash((scope, model)), hash((scope, hash(call.route))))
            self._places.put(name, place)
        start, first = call.started_at, call.first_byte_at
        if first is None:
            first = call.ended_at
        if self.clock is not None:
            start, first = self.clock(start), self.clock(first)
        return Seen(place, start, max(start, first), read, written)


def _decoded(request: Request) -> Top | None:
    body = request.body
    return decode(body) if body and len(body) <= MAX_BODY else None


def _marked(call: EndedCall) -> bool:
    """Return whether the request seems to have a breakpoint, or to ask for automatic ones."""
    body = call.request.body
    if body is None:
        return False
    # From the end, and without the quotes first: six times as fast on a long body without any.
    if body.rfind(b"cache_control") >= 0 and body.rfind(b'"cache_control"') >= 0:
        return True
    return call.facts.provider == "aws.bedrock" and body.rfind(b'"cachePoint"') >= 0


def _missed(call: EndedCall, *, explicit: bool) -> bool:
    """Return whether a call that read and wrote nothing could have: its verdict is a miss."""
    facts = call.facts
    total = facts.input_tokens
    if total is None:
        return False
    if explicit:
        return _marked(call)
    if total < MINIMUM:
        return False
    if facts.cache_read_tokens is None:
        model = (facts.request_model or "").rsplit("/", 1)[-1]
        return facts.provider in _ABSENT_IS_ZERO and facts.usage_seen and not model.startswith(_NO_CACHE)
    return True


def _below_minimum(facts: Facts, prompt: PromptDigests, least: int, most: int) -> str | None:
    """Give the reason of a call that read and wrote nothing, where its prefix was too short (D: no error)."""
    total = facts.input_tokens
    if total is None:
        return None
    if total < least:
        return "below_minimum"
    if facts.cache_read_tokens is None:
        return None  # not stated, perhaps no cache at all
    share = prompt.bytes_up_to(prompt.marks[-1][0]) / (prompt.bytes_up_to(-1) or 1)
    return "below_minimum" if total < most or (share < 1.0 and total * share / 2 < most) else None


def _bare(model: str | None) -> str:
    """Return the model id without the prefixes of gateways and regions."""
    name = (model or "").rsplit("/", 1)[-1]
    at = name.find("claude")
    return name[at:] if at > 0 else name


def _workspace(call: EndedCall) -> str:
    """Return whose cache it is: the workspace that the answer names, else the key (digested, never kept)."""
    named = call.response_headers.get("anthropic-workspace-id")
    if named:
        return named
    if call.facts.provider in ("aws.bedrock", "gcp.vertex_ai"):
        return ""  # the organisation's cache (D)
    headers = call.request.headers
    key = headers.get("x-api-key") or headers.get("api-key") or headers.get("authorization")
    return "" if key is None or key.startswith(_PASSING_KEYS) else key
