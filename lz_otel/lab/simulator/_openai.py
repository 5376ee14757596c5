"""Decisions of the simulated OpenAI API: checks, faults, automatic prompt cache, answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel.lab.simulator import _faults
from lz_otel.lab.simulator import _openai_wire as wire
from lz_otel.lab.simulator._content import compose, last_user_text
from lz_otel.lab.simulator._context import Context, reply
from lz_otel.lab.simulator._provider import decoded
from lz_otel.lab.simulator._schema import ScenarioRange
from lz_otel.lab.simulator._tokens import digest_of, openai_blocks, tokens_of
from lz_otel.lab.simulator._truth import Mechanism, hide

if TYPE_CHECKING:
    from lz_otel.lab.simulator._content import Content
    from lz_otel.lab.simulator._context import Answer
    from lz_otel.lab.simulator._provider import Provider
    from lz_otel.lab.simulator._truth import Record

_EMBEDDING_MS = ScenarioRange(30.0, 90.0)
_WRITES_COST = ("gpt-5.6", "gpt-6")  # models that report written tokens (D)


class OpenAI:
    """Chat completions, responses and embeddings of one provider, by its scenario, caches and truth."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def answer(self, headers: dict[bytes, bytes], raw: bytes, record: Record) -> Answer:
        """Answer a request of the record's API."""
        needed = "messages" if record.api == "chat" else "input"
        provider = self._provider
        behaviour = provider.behaviour()
        body = decoded(raw)
        if not headers.get(b"authorization") and not headers.get(b"api-key"):
            return _invalid(record, 401, "invalid_api_key", "No API key was given")
        if body is None or not isinstance(body.get("model"), str) or body.get(needed) is None:
            return _invalid(record, 400, "", f"model and {needed} are required")
        record.model = body["model"]
        ctx = Context(headers, body, behaviour, record, provider.seed)
        record.stream = ctx.stream and record.api != "embeddings"
        ctx.stream = record.stream
        fault = _faults.draw_fault(ctx)
        exhausted = provider.limits.exhausted(behaviour.limits, ctx.workspace)
        if exhausted is not None:
            fault = "rate_limited"
        if fault in _faults.HTTP_FAULTS:
            answer = _faults.http_error(ctx, fault)
        else:
            answer = self._embedded(ctx) if record.api == "embeddings" else self._written(ctx)
            record.status = 200
            if fault:
                _faults.break_answer(ctx, answer, fault)
        answer.headers += [
            (b"x-request-id", record.request_id.encode()),
            (b"openai-processing-ms", b"%d" % round(answer.wait * 1000)),
            (b"openai-organization", b"sim"),
            (b"openai-version", b"2020-10-01"),
        ]
        tokens = record.input_tokens + record.output_tokens
        answer.headers += provider.limits.openai(behaviour.limits, ctx.workspace, tokens)
        return answer

    def _embedded(self, ctx: Context) -> Answer:
        given = ctx.body["input"]
        inputs = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
        ctx.record.input_tokens = sum(tokens_of(i.encode()) if isinstance(i, str) else len(i) for i in inputs)
        ctx.record.uncached_tokens = ctx.record.input_tokens
        ctx.take(ctx.draw.band("latency", _EMBEDDING_MS))
        return wire.embeddings(ctx, len(inputs))

    def _written(self, ctx: Context) -> Answer:
        record, body, behaviour = ctx.record, ctx.body, ctx.behaviour
        provider = self._provider
        blocks = openai_blocks(body)
        record.input_tokens = sum(b.tokens for b in blocks)
        cached = provider.cache.openai(body, blocks, ctx.workspace, record.route, provider.clock.now())
        record.cache_read_tokens = cached.read
        if record.model.startswith(_WRITES_COST):
            record.cache_write_tokens = cached.write
        record.uncached_tokens = record.input_tokens - record.cache_read_tokens - record.cache_write_tokens
        if cached.asked:
            hit = Mechanism("hit") if cached.read else Mechanism("miss", cached.reason)
            ctx.verdict("prompt_cache", hit)
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or body.get("max_output_tokens")
        limit = limit if isinstance(limit, int) else None
        digest = digest_of(record.model, blocks)
        content = compose(ctx, provider.memory, digest, last_user_text(body), limit)
        effort = body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort")
        if effort and effort != "none":
            record.reasoning_tokens = int(ctx.draw.band("reasoning", behaviour.answers.thinking_tokens))
        record.output_tokens = record.would_output_tokens = content.tokens + record.reasoning_tokens
        record.stop_reason = content.stop
        ms = float(ctx.force.get("latency") or ctx.draw.band("latency", behaviour.latency.full_ms))
        if cached.read:
            ms *= behaviour.prompt_cache.latency_share
        ctx.take(ms)
        answer = _message(ctx, content)
        answer.on_begin, answer.on_lost = cached.begin, cached.lose
        if record.usage_sent != "full":
            hide(record)
        return answer


def _message(ctx: Context, content: Content) -> Answer:
    chat = ctx.record.api == "chat"
    answer_id = f"{'chatcmpl-' if chat else 'resp_'}sim{ctx.record.ordinal:020x}"
    if not ctx.stream:
        return (wire.chat_plain if chat else wire.responses_plain)(ctx, content, answer_id)
    return (wire.chat_streamed if chat else wire.responses_streamed)(ctx, content, answer_id, ctx.pieces())


def _invalid(record: Record, status: int, code: str, message: str) -> Answer:
    record.status, record.ending = status, "error"
    record.error_type, record.error_code = "invalid_request_error", code
    return reply(_faults.openai_error(record, message), status=status)
