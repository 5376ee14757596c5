"""The call log: one line per call, on request, without content."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from lz_otel.model import EndedCall


def json_lines(logger: logging.Logger) -> Any:
    """Return a logger of structlog that hands its entries, as JSON lines, to one of the standard library."""
    return structlog.wrap_logger(
        logger,
        processors=[structlog.processors.JSONRenderer()],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class CallLog:
    """One JSON line per call on the logger ``lz_otel.calls`` (level INFO), without any content."""

    def __init__(self) -> None:
        self._log = json_lines(logging.getLogger("lz_otel.calls"))

    def write(self, ended: EndedCall) -> None:
        """Log an ended call."""
        operation, provider, model, route, group = ended.common
        facts = ended.facts
        fields: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "operation": operation,
            "provider": provider,
            "request_model": model,
            "response_model": ended.response_model,
            "route": route,
            "group": group,
            "status": ended.status,
            "ending": ended.ending,
            "error_type": ended.error_type,
            "error_code": facts.error_code,
            "duration_s": round(ended.ended_at - ended.started_at, 6),
            "stream": facts.stream,
            "path": ended.path,
            "served_by": ended.served_by,
            "input_tokens": facts.input_tokens,
            "output_tokens": facts.output_tokens if facts.output_final else None,
            "cache_read_tokens": facts.cache_read_tokens,
            "cache_write_tokens": facts.cache_write_tokens,
            "cost_usd": None if ended.cost is None else ended.cost.usd,
            "trace_id": ended.trace_id,
        }
        for result in ended.results:
            if result.verdict is not None:
                fields[result.verdict.mechanism] = result.verdict.decision
                if result.verdict.reason:
                    fields[f"{result.verdict.mechanism}_reason"] = result.verdict.reason
        self._log.info("call", **{k: v for k, v in fields.items() if v not in (None, "")})
