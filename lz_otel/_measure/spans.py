"""Spans: ``chat {model}`` from the request to the last byte of the body.

Made only when traces are exported. Where a GenAI span of an SDK (``anthropic`` 2.x) or of another
instrumentation is current, it is enriched instead of doubled. No content is ever put on a span.
"""

from __future__ import annotations

from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from lz_otel._measure.labels import clean
from lz_otel.model import Ending

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Span, TracerProvider

    from lz_otel._capture.call import Call
    from lz_otel.model import EndedCall, Facts

_LOOK_AGAIN = 1.0  # seconds
_OPERATION_NAME = "gen_ai.operation.name"


def traced(provider: Any) -> bool:
    """Return whether a provider makes real spans."""
    return not isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider))


def _genai(span: Any) -> bool:
    """Return whether a span is a recording GenAI span."""
    attributes = getattr(span, "attributes", None)
    return bool(span.is_recording() and attributes is not None and _OPERATION_NAME in attributes)


class Spans:
    """Makes or enriches one span per call.

    Args:
        provider: the TracerProvider to use, or ``None`` for the global one, whenever it is set.
        version: version of lz_otel, for the scope.
        is_call: whether a method and path are those of an LLM call.

    Attributes:
        quiet_until: until then (``perf_counter``) no traces are exported; 0.0 where that must be asked.
    """

    def __init__(
        self, provider: TracerProvider | None, version: str, is_call: Callable[[str, str], bool]
    ) -> None:
        self._given = provider
        self._is_call = is_call
        self._version = version
        self._known: Any = None  # the provider that was looked at last
        self._tracer: Any = None
        self.quiet_until = 0.0

    def active(self) -> bool:
        """Return whether traces are exported now.

        Without a provider this is asked of OpenTelemetry (about 3 µs) at most once a second.
        """
        if self._tracer is None and self._given is None:
            now = perf_counter()
            if now < self.quiet_until:
                return False
            self.quiet_until = now + _LOOK_AGAIN
        provider = self._given or trace.get_tracer_provider()
        if provider is not self._known:
            self._known = provider
            self._tracer = provider.get_tracer("lz_otel", self._version) if traced(provider) else None
            if self._tracer is not None:
                self.quiet_until = 0.0
        return self._tracer is not None

    def sdk_span(self, call: Call) -> None:
        """Remember an SDK's own span, from inside its request method, before HTTP spans hide it."""
        if call.span is None and self._tracer is not None:
            current = trace.get_current_span()
            if _genai(current):
                call.span = (current, False)

    def sdk_begun(self, call: Call, client: Any, options: Any) -> Any:
        """Begin our span of an LLM call that has none yet: an SDK's request method was entered.

        Returns:
            A token to detach when the method is left (HTTP spans then lie inside ours), or ``None``.
        """
        current = trace.get_current_span()
        if _genai(current):
            call.span = (current, False)
            return None
        if getattr(client, "_tracer", None) is not None:
            return None  # the SDK is about to make its own, which is then enriched
        path = "/" + str(getattr(options, "url", "")).partition("?")[0].lstrip("/")
        if not self._is_call(str(getattr(options, "method", "")).upper(), path):
            return None
        body = getattr(options, "json_data", None)
        model = body.get("model") if isinstance(body, dict) else None
        span = self._start(call, "chat", clean(model) if isinstance(model, str) else "")
        return context.attach(trace.set_span_in_context(span))

    def _start(self, call: Call, operation: str, model: str) -> Span:
        offset = int(max(0.0, perf_counter() - call.started_at) * 1e9)
        span: Span = self._tracer.start_span(
            f"{operation} {model}".strip(),
            kind=SpanKind.CLIENT,
            start_time=time_ns() - offset,
            attributes={_OPERATION_NAME: operation},
        )
        call.span = (span, True)
        return span

    def attempt_begun(self, call: Call, facts: Facts) -> None:
        """Find or begin the span of a call, at its first attempt."""
        if call.span is None and self.active():
            current = trace.get_current_span()
            if _genai(current):
                call.span = (current, False)
            else:
                self._start(call, facts.operation, clean(facts.request_model or ""))

    @staticmethod
    def borrowed(call: Call) -> bool:
        """Return whether the call's span is another's, who will end it as soon as the body has ended."""
        return call.span is not None and not call.span[1]

    def call_ended(self, call: Call, ended: EndedCall) -> None:
        """Write what is known and end the span, if it is ours."""
        if call.span is None:
            return
        span, own = call.span
        call.span = None
        if not span.is_recording():
            return  # an SDK may have ended its span at the terminal event
        attributes = self._verdicts(ended)
        if own:
            attributes |= self._standard(ended)
        span.set_attributes(attributes)
        if own:
            if ended.ending in (Ending.ERROR, Ending.INCOMPLETE):
                span.set_status(Status(StatusCode.ERROR))
            offset = int(max(0.0, perf_counter() - ended.ended_at) * 1e9)
            span.end(end_time=time_ns() - offset)

    def _verdicts(self, ended: EndedCall) -> dict[str, Any]:
        out: dict[str, Any] = {"lz.path": ended.path, "lz.ending": ended.ending}
        if ended.served_by:
            out["lz.served_by"] = ended.served_by
        if ended.common[3]:
            out["lz.route"] = ended.common[3]
        if ended.common[4]:
            out["lz.group"] = ended.common[4]
        out["lz.attempts"] = ended.attempts
        trace_id = ended.response_headers.get("x-anthropic-trace-id")
        if trace_id and len(trace_id) <= 128 and trace_id.isprintable():
            out["lz.scheduling.trace_id"] = trace_id
        for result in ended.results:
            verdict = result.verdict
            if verdict is not None:
                out[f"lz.{verdict.mechanism}.verdict"] = verdict.decision
                if verdict.reason:
                    out[f"lz.{verdict.mechanism}.reason"] = verdict.reason
        if ended.cost is not None:
            out["lz.cost.usd"] = ended.cost.usd
        return out

    def _standard(self, ended: EndedCall) -> dict[str, Any]:
        facts = ended.facts
        values: dict[str, Any] = {
            "gen_ai.provider.name": facts.provider,
            "gen_ai.request.model": ended.common[2],
            "gen_ai.response.model": ended.response_model,
            "gen_ai.response.id": facts.response_id,
            "gen_ai.response.finish_reasons": tuple(facts.finish_reasons) or None,
            "gen_ai.request.stream": facts.stream or None,
            "gen_ai.usage.input_tokens": facts.input_tokens,
            "gen_ai.usage.output_tokens": facts.output_tokens if facts.output_final else None,
            "gen_ai.usage.cache_read.input_tokens": facts.cache_read_tokens,
            "gen_ai.usage.cache_write.input_tokens": facts.cache_write_tokens,
            "gen_ai.usage.reasoning.output_tokens": facts.reasoning_tokens,
            "error.type": ended.error_type or None,
            "error.code": facts.error_code if ended.error_type else None,
        }
        if facts.stream and ended.first_byte_at is not None:
            values["gen_ai.response.time_to_first_chunk"] = max(0.0, ended.first_byte_at - ended.started_at)
        return {k: v for k, v in values.items() if v is not None and v != ""}
