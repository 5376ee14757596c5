"""What goes wrong, in the shapes of the vendors (D): HTTP errors, and answers that break on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lz_otel.lab.simulator._context import Answer, reply
from lz_otel.lab.simulator._messages import event
from lz_otel.lab.simulator._tokens import encode
from lz_otel.lab.simulator._truth import hide
from lz_otel.lab.simulator.scenario import Faults

if TYPE_CHECKING:
    from lz_otel.lab.simulator._context import Context, Headers
    from lz_otel.lab.simulator._truth import Record


class _HttpFault(NamedTuple):
    """An HTTP error: type and code as each vendor spells them; without a type it is a page in HTML."""

    status: int
    anthropic: tuple[str, str]
    openai: tuple[str, str]
    message: str
    retry: bool = True


_INVALID = "invalid_request_error"
HTTP_FAULTS = {
    "rate_limited": _HttpFault(
        429, ("rate_limit_error", ""), ("requests", "rate_limit_exceeded"),
        "Number of requests has exceeded your rate limit",
    ),
    "overloaded": _HttpFault(529, ("overloaded_error", ""), ("server_error", "slow_down"), "Overloaded"),
    "server_error": _HttpFault(500, ("api_error", ""), ("server_error", ""), "Internal server error"),
    "unavailable": _HttpFault(503, ("api_error", ""), ("server_error", ""), "The service is unavailable"),
    "bad_gateway": _HttpFault(502, ("", ""), ("", ""), ""),
    "gateway_timeout": _HttpFault(
        504, ("timeout_error", ""), ("server_error", ""), "The request took too long",
    ),
    "spend_limit": _HttpFault(
        429, ("rate_limit_error", "enforced_spend_limit_reached"),
        ("insufficient_quota", "organization_spend_limit_exceeded"), "A spend limit has been reached", False,
    ),
    "bad_request": _HttpFault(400, (_INVALID, ""), (_INVALID, ""), "The request is not valid", False),
    "too_large": _HttpFault(413, ("", ""), ("", ""), ""),
}  # fmt: skip
STREAM_FAULTS = ("stream_error", "no_stop", "stall")
BODY_FAULTS = ("drop", "disconnect", "slow_headers", "malformed_json")
_ALIASES = {
    "429": "rate_limited", "529": "overloaded", "500": "server_error", "502": "bad_gateway",
    "503": "unavailable", "504": "gateway_timeout", "400": "bad_request", "413": "too_large",
}  # fmt: skip
_KINDS = tuple(
    kind for kind in Faults.__struct_fields__ if kind in (*HTTP_FAULTS, *STREAM_FAULTS, *BODY_FAULTS)
)
_HTML = b"<html><head><title>%d</title></head><body><center><h1>%d</h1></center><hr>cloudflare</body></html>"


def draw_fault(ctx: Context) -> str:
    """Return the kind of fault of this attempt, or nothing.

    ``x-sim-force: fault=429,529`` forces one kind per attempt, in order, none after the last.
    """
    if "fault" in ctx.force:
        wanted = ctx.force["fault"].split(",")
        attempt = ctx.record.attempt
        kind = wanted[attempt].strip() if attempt < len(wanted) else ""
        kind = _ALIASES.get(kind, kind)
        kind = kind if kind in _KINDS else ""
    else:
        kind = ""
        left = ctx.draw.unit("fault")
        faults = ctx.behaviour.faults
        for name in _KINDS:
            left -= getattr(faults, name)
            if left < 0.0:
                kind = name
                break
    if kind in STREAM_FAULTS and not ctx.stream:
        return ""
    return kind


def _retry_headers(ctx: Context, fault: _HttpFault) -> Headers:
    if not fault.retry:
        return []
    faults = ctx.behaviour.faults
    ms = float(ctx.force.get("retry-after-ms", faults.retry_after_ms))
    out = [(b"x-should-retry", b"true")]
    if faults.retry_after in ("ms", "both"):
        out.append((b"retry-after-ms", b"%d" % round(ms)))
    if faults.retry_after in ("seconds", "both"):
        out.append((b"retry-after", str(round(ms / 1000, 3)).encode()))
    return out


def http_error(ctx: Context, kind: str) -> Answer:
    """Return the HTTP error of a kind, as the vendor of the request's API states it."""
    fault, record = HTTP_FAULTS[kind], ctx.record
    messages = record.api == "messages"
    status = 503 if kind == "overloaded" and not messages else fault.status
    wait_ms = 20.0 * ctx.behaviour.latency.scale
    record.fault, record.status, record.ending = kind, status, "error"
    record.error_type, record.error_code = fault.anthropic if messages else fault.openai
    if not record.error_type:
        html = (b"content-type", b"text/html")
        return Answer(status, [html], [(0.0, _HTML % (status, status))], wait=wait_ms / 1000.0)
    if messages:
        details = {"details": {"error_code": record.error_code}} if record.error_code else {}
        error = {"type": record.error_type, "message": fault.message, **details}
        answer = reply({"type": "error", "error": error, "request_id": record.request_id}, wait_ms, status)
    else:
        answer = reply(openai_error(record, fault.message), wait_ms, status)
    answer.headers += _retry_headers(ctx, fault)
    return answer


def openai_error(record: Record, message: str) -> dict[str, object]:
    """Return the body of an error of the OpenAI API, with the record's type and code."""
    code = record.error_code or None
    return {"error": {"message": message, "type": record.error_type, "param": None, "code": code}}


def break_answer(ctx: Context, answer: Answer, fault: str) -> None:
    """Make a good answer go wrong on its way."""
    record, pieces = ctx.record, answer.pieces
    stall = ctx.behaviour.faults.stall_ms / 1000.0
    record.fault = fault
    if fault == "slow_headers":
        answer.wait += stall
        return
    record.ending = "malformed" if fault == "malformed_json" else fault
    # A stream of the Messages API states its usage at its start, one of OpenAI's only at its end
    stated = record.api == "messages" and answer.chunked and fault != "disconnect"
    record.usage_sent = "start" if stated else "none"
    if not stated:
        hide(record, everything=fault == "disconnect")
    middle = max(1, len(pieces) // 2)
    if fault == "malformed_json" and answer.chunked:
        torn = _TORN_MESSAGE if record.api == "messages" else _TORN_CHUNK
        pieces.insert(min(2, len(pieces) - 1), (0.0, torn))
    elif fault == "malformed_json":
        pieces[0] = (0.0, pieces[0][1][: len(pieces[0][1]) // 2])
    elif fault == "stream_error":
        answer.pieces = [*pieces[:middle], (0.0, _stream_error(record))]
    elif fault == "no_stop":
        answer.pieces = pieces[:-1]
    else:  # disconnect, drop, stall
        answer.cut, answer.cut_after = fault, middle
        answer.stall = stall if fault == "stall" else 0.0


_TORN_MESSAGE = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n'
_TORN_CHUNK = b'data: {"id":"chatcmpl-sim","choices":[{"ind\n\n'


def _stream_error(record: Record) -> bytes:
    """Return the event by which a stream says that it fails."""
    if record.api == "messages":
        record.error_type = "overloaded_error"
        return event(
            "error", {"type": "error", "error": {"type": record.error_type, "message": "Overloaded"}}
        )
    record.error_type = "server_error"
    message = "The server had an error"
    if record.api == "chat":
        return b"data: " + encode(openai_error(record, message)) + b"\n\n"
    body = {"type": "error", "code": "server_error", "message": message, "param": None, "sequence_number": 99}
    return event("error", body)
