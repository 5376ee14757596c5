"""One simulated provider: decides what each request gets. No I/O, no framework."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from lz_otel._ground.memory import BoundedMap, BoundedSet
from lz_otel.lab.simulator import _families, _faults, _messages
from lz_otel.lab.simulator._breakpoints import BreakpointError, breakpoints
from lz_otel.lab.simulator._clock import Clock
from lz_otel.lab.simulator._content import Content, Memory, compose, last_user_text
from lz_otel.lab.simulator._context import Context, reply
from lz_otel.lab.simulator._families import RefusedError
from lz_otel.lab.simulator._gateway import ResponseCache
from lz_otel.lab.simulator._limits import RateLimits
from lz_otel.lab.simulator._prefix import CacheResult, PrefixCache
from lz_otel.lab.simulator._symbolic import Symbolic
from lz_otel.lab.simulator._tokens import anthropic_blocks, digest_of
from lz_otel.lab.simulator._truth import Mechanism, Truth
from lz_otel.mechanisms import REPLACES, of_effect

if TYPE_CHECKING:
    from pathlib import Path

    from lz_otel.lab.simulator._context import Answer, Upstream
    from lz_otel.lab.simulator._truth import Record
    from lz_otel.lab.simulator.scenario import Behaviour, Scenario

_DECODE = msgspec.json.Decoder().decode
_NO_SAMPLING = "2026-10-21"


class Provider:
    """Everything the simulator knows and remembers; its truth goes to the file, too, where one is given."""

    def __init__(
        self, scenario: Scenario, seed: int = 0, clock: Clock | None = None, truth_path: Path | None = None
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.clock = clock or Clock()
        self.truth = Truth(path=truth_path)
        self.cache = PrefixCache()
        self.symbolic = Symbolic()
        self.memory = Memory()
        self.limits = RateLimits()
        self.responses = ResponseCache(self.clock, seed)
        self.layer_zero_on = True  # POST /v1/layer-zero/control
        self._first: float | None = None
        self._messages: BoundedMap[str, tuple[str, bytes, bytes, bytes]] = BoundedMap(20_000)
        self._counted: BoundedSet[bytes] = BoundedSet(1024)  # prompts that a client has had counted

    def reset(self) -> None:
        """Forget everything, as if just started."""
        for part in (self.truth, self.cache, self.symbolic, self.memory, self.limits, self.responses):
            part.reset()
        self.layer_zero_on = True
        self._first = None
        self._messages.clear()
        self._counted.clear()

    def behaviour(self) -> Behaviour:
        """Return the behaviour of now; the scenario's timeline starts with the first request."""
        now = self.clock.now()
        if self._first is None:
            self._first = now
        return self.scenario.at(now - self._first)

    def begin(self, headers: dict[bytes, bytes], api: str) -> Record:
        """Open the record of a request."""
        record = self.truth.begin()
        record.api = api
        record.call = headers.get(b"x-sim-call", b"").decode("latin-1")
        record.route = headers.get(b"x-sim-route", b"").decode("latin-1")
        retry = headers.get(b"x-stainless-retry-count", b"0")
        record.attempt = int(retry) if retry.isdigit() else 0
        record.at = round(self.clock.now(), 4)
        return record

    def serve(self, upstream: Upstream, headers: dict[bytes, bytes], raw: bytes, record: Record) -> Answer:
        """Answer one request, through the gateway where the scenario has one."""
        behaviour = self.behaviour()
        if behaviour.gateway.name and record.api != "count_tokens":
            return self.responses.through(behaviour, headers, raw, record, upstream)
        return upstream(headers, raw, record)

    # --- Messages ---------------------------------------------------------------------------

    def messages(self, headers: dict[bytes, bytes], raw: bytes, record: Record) -> Answer:
        """Answer ``POST /v1/messages``."""
        behaviour = self.behaviour()
        answer, ctx = self._messages_answer(headers, raw, record, behaviour)
        answer.headers += [
            (b"request-id", record.request_id.encode()),
            (b"anthropic-organization-id", b"00000000-0000-4000-8000-000000000000"),
        ]
        if ctx is not None:
            billed = record.uncached_tokens + record.cache_write_tokens
            limits = self.limits.anthropic(behaviour.limits, ctx.workspace, billed, record.output_tokens)
            answer.headers += ctx.extra + limits
        return answer

    def _messages_answer(
        self, headers: dict[bytes, bytes], raw: bytes, record: Record, behaviour: Behaviour
    ) -> tuple[Answer, Context | None]:
        body = decoded(raw)
        if not (headers.get(b"x-api-key") or headers.get(b"authorization")):
            return _invalid(record, "x-api-key header is required", 401), None
        problem = _problem(body, headers)
        if body is None or problem:
            return _invalid(record, problem), None
        record.model = body["model"]
        ctx = Context(headers, body, behaviour, record, self.seed)
        record.stream = ctx.stream
        asked, ratio = _families.prune_request(ctx)
        fault = _faults.draw_fault(ctx)
        exhausted = self.limits.exhausted(behaviour.limits, ctx.workspace)
        if exhausted is not None:
            fault = "rate_limited"
            ctx.force.setdefault("retry-after-ms", str(int(exhausted * 1000) + 1))
        if fault in _faults.HTTP_FAULTS:
            return self._http_fault(ctx, fault, asked and behaviour.pruning.enabled), ctx
        try:
            blocks = anthropic_blocks(body)
            marks = breakpoints(body, blocks)
            answer = self._served(ctx, blocks, marks, asked, ratio, raw, fault)
        except BreakpointError as error:
            return _invalid(record, str(error)), ctx
        except RefusedError as refusal:
            record.status, record.ending = 400, "error"
            record.error_type, record.error_code = "invalid_request_error", refusal.code
            return reply(refusal.body, status=400), ctx
        if fault:
            _faults.break_answer(ctx, answer, fault)
        return answer, ctx

    def _served(
        self,
        ctx: Context,
        blocks: list[Any],
        marks: list[int],
        asked: bool,
        ratio: float | None,
        raw: bytes,
        fault: str,
    ) -> Answer:
        record, body = ctx.record, ctx.body
        prompt = last_user_text(body)
        whole = sum(b.tokens for b in blocks)
        fingerprint = digest_of(record.model, blocks)
        same = blake2b(raw, digest_size=16).digest()  # the engine compiles whole requests
        intent = _families.ask_intent(ctx) if self.layer_zero_on else ""
        cached = self._prompt_cache(ctx, blocks, marks)
        counted = asked and fingerprint in self._counted
        pruned = _families.ask_pruning(ctx, asked, ratio, whole - cached.read - cached.write, counted)
        record.uncached_tokens = whole - pruned - cached.read - cached.write
        record.input_tokens = whole - pruned
        symbolic = self.symbolic.serve(ctx, same) if self.layer_zero_on else ""
        masked = _families.ask_zeroing(ctx) if self.layer_zero_on else False
        shared = _families.ask_scheduling(ctx) if self.layer_zero_on else False
        # ``legacy`` opts out of the scheduler, and so of all sharing
        scheduled = ctx.header(b"x-anthropic-layer-hint").split(";")[0].strip() not in ("", "legacy")
        max_tokens = int(body["max_tokens"])
        content = Content("", None, "", 0, 0, "max_tokens")
        if max_tokens:
            served = symbolic in ("hit", "contradiction")
            content = compose(ctx, self.memory, fingerprint, prompt, max_tokens, intent, served)
            if scheduled:
                content = self._sharing(ctx, content, prompt, shared)
        wish = record.mechanisms.get("intent")
        if wish is not None and content.text and fault in ("", "slow_headers"):
            wish.facts["repeat"] = self.memory.repeat(same, wish.facts["intent"], content.text)
        for name in of_effect(REPLACES):
            mechanism = record.mechanisms.get(name)
            if mechanism is not None and mechanism.verdict == "hit":
                record.path = "fast"
                record.served_by = record.served_by or name
        record.would_output_tokens = content.tokens
        record.output_tokens = 0 if symbolic in ("hit", "zero_output") else content.tokens
        record.reasoning_tokens = 0 if symbolic in ("hit", "zero_output") else content.thinking_tokens
        record.stop_reason = content.stop
        self._take_time(ctx, cached, pruned)
        answer = self._message(ctx, content, cached, masked)
        record.status = 200
        answer.on_begin, answer.on_lost = cached.begin, cached.lose
        if scheduled:
            answer.on_end = lambda: self.memory.learn(prompt)
        return answer

    def _message(self, ctx: Context, content: Content, cached: CacheResult, masked: bool) -> Answer:
        message_id = f"msg_sim{ctx.record.ordinal:020x}"
        extra = self._diagnostics(ctx, message_id, cached)
        if not ctx.stream:
            return _messages.plain(ctx, content, message_id, extra)
        pieces = ctx.pieces()
        # Short texts give fewer deltas than planned
        sent = _families.masks(ctx, len(_messages.cut_up(content.text, pieces))) if masked else None
        return _messages.streamed(ctx, content, message_id, extra, sent, pieces)

    def _prompt_cache(self, ctx: Context, blocks: list[Any], marks: list[int]) -> CacheResult:
        if not ctx.behaviour.prompt_cache.enabled:
            return CacheResult(asked=bool(marks), reason="first_use")
        result = self.cache.anthropic(
            ctx.body, blocks, marks, ctx.workspace, ctx.record.route, self.clock.now()
        )
        record = ctx.record
        record.cache_read_tokens, record.cache_write_tokens = result.read, result.write
        record.cache_write_5m_tokens, record.cache_write_1h_tokens = result.write_5m, result.write_1h
        if result.read:
            ctx.verdict("prompt_cache", Mechanism("hit"))
        elif result.asked:
            ctx.verdict("prompt_cache", Mechanism("miss", result.reason))
        return result

    def _sharing(self, ctx: Context, content: Content, prompt: str, shared: bool) -> Content:
        ctx.record.similar = self.memory.similar(prompt)
        ghost = self.memory.leak(ctx, prompt, self.truth.active)
        if not ghost or not shared or content.tool:
            return content
        ctx.record.ghosts = 1
        text = f"{content.text} See also {'' if '@' in ghost else 'order '}{ghost} ."
        return content._replace(text=text, tokens=content.tokens + (len(text) - len(content.text) + 3) // 4)

    def _take_time(self, ctx: Context, cached: CacheResult, pruned: int) -> None:
        ms = ctx.total_ms
        if "latency" in ctx.force:
            ms = float(ctx.force["latency"])
        elif ms is None:
            ms = ctx.draw.band("latency", ctx.behaviour.latency.full_ms)
            if cached.read:
                ms *= ctx.behaviour.prompt_cache.latency_share
            if pruned:
                ms *= ctx.behaviour.pruning.latency_share
        ctx.take(ms)

    def _diagnostics(self, ctx: Context, message_id: str, cached: CacheResult) -> dict[str, Any]:
        """Return the vendor's diagnosis of a miss, for clients that ask (D)."""
        wish = ctx.body.get("diagnostics")
        if not isinstance(wish, dict) or cached.seen is None:
            return {}
        now = cached.seen[:4]  # model, tools, system, messages
        before = self._messages.get(str(wish.get("previous_message_id")))
        self._messages.put(message_id, now)
        if wish.get("previous_message_id") is None or cached.read:
            return {"diagnostics": None}
        if before is None:
            return {"diagnostics": {"cache_miss_reason": {"type": "previous_message_not_found"}}}
        for name, old, new in zip(("model", "tools", "system", "messages"), before, now, strict=True):
            if old != new:
                reason = {"type": f"{name}_changed", "cache_missed_input_tokens": cached.write}
                return {"diagnostics": {"cache_miss_reason": reason}}
        return {"diagnostics": None}

    def _http_fault(self, ctx: Context, fault: str, collapsed: bool) -> Answer:
        record = ctx.record
        answer = _faults.http_error(ctx, fault)
        if collapsed and ctx.behaviour.pruning.collapse_errors:  # 001: all errors become a 400 (A)
            code = record.error_type or "upstream_error"
            error = {"type": "invalid_request_error", "message": "layer-zero: request failed", "code": code}
            body = {"type": "error", "error": error, "request_id": record.request_id}
            answer = reply(body, answer.wait * 1000.0, 400)
            record.status, record.error_type, record.error_code = 400, "invalid_request_error", code
            ctx.verdict("pruning", Mechanism("fallback", "rejected", facts={"code": code}))
        return answer

    def count_tokens(self, headers: dict[bytes, bytes], raw: bytes, record: Record) -> Answer:
        """Answer ``POST /v1/messages/count_tokens``: the whole prompt, before any pruning."""
        body = decoded(raw)
        if body is None or type(body.get("model")) is not str or type(body.get("messages")) is not list:
            return _invalid(record, "model and messages are required")
        record.model = body["model"]
        blocks = anthropic_blocks(body)
        record.counted_tokens = sum(b.tokens for b in blocks)
        self._counted.add(digest_of(record.model, blocks))
        record.status = 200
        answer = reply({"input_tokens": record.counted_tokens})
        answer.headers.append((b"request-id", record.request_id.encode()))
        return answer


def _invalid(record: Record, message: str, status: int = 400) -> Answer:
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    record.status, record.ending, record.error_type = status, "error", kind
    error = {"type": kind, "message": message}
    return reply({"type": "error", "error": error, "request_id": record.request_id}, status=status)


def decoded(raw: bytes) -> dict[str, Any] | None:
    """Return a request's body; ``None`` where it is no JSON object."""
    try:
        body = _DECODE(raw)
    except msgspec.DecodeError:
        return None
    return body if isinstance(body, dict) else None


def _problem(body: dict[str, Any] | None, headers: dict[bytes, bytes]) -> str:
    """Return the vendor's message for a request that breaks a basic rule, or an empty text."""
    if body is None:
        return "The request body is not valid JSON"
    if not isinstance(body.get("model"), str):
        return "model: Field required"
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        return "messages: at least one message is required"
    if body["max_tokens"] == 0 and body.get("stream") is True:
        return "max_tokens: 0 cannot be used with stream"
    if headers.get(b"anthropic-version") == _NO_SAMPLING.encode() and not headers.get(
        b"anthropic-sampling-intent"
    ):
        for name in ("temperature", "top_p", "top_k"):
            if body.get(name) is not None:
                return f"{name}: is not supported in this API version"
    return ""
