"""What goes wrong, in the shapes of the vendors (D)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lz_otel.lab.simulator.scenario import Faults

if TYPE_CHECKING:
    from lz_otel.lab.simulator._context import Context


class HttpFault(NamedTuple):
    """An HTTP error: status, and type and code as each vendor spells them."""

    status: int
    anthropic: str
    openai: str
    message: str
    retry: bool = False
    code: str = ""
    html: bool = False


HTTP_FAULTS = {
    "rate_limited": HttpFault(
        429,
        "rate_limit_error",
        "rate_limit_exceeded",
        "Number of requests has exceeded your rate limit",
        True,
    ),
    "overloaded": HttpFault(529, "overloaded_error", "server_error", "Overloaded", True),
    "server_error": HttpFault(500, "api_error", "server_error", "Internal server error", True),
    "unavailable": HttpFault(503, "api_error", "server_error", "The service is unavailable", True),
    "bad_gateway": HttpFault(502, "", "", "", True, html=True),
    "gateway_timeout": HttpFault(504, "timeout_error", "server_error", "The request took too long", True),
    "spend_limit": HttpFault(429, "rate_limit_error", "insufficient_quota", "A spend limit has been reached"),
    "bad_request": HttpFault(
        400, "invalid_request_error", "invalid_request_error", "The request is not valid"
    ),
    "too_large": HttpFault(413, "", "", "", html=True),
}
STREAM_FAULTS = ("stream_error", "no_stop", "stall")
BODY_FAULTS = ("drop", "disconnect", "slow_headers", "malformed_json")
_ALIASES = {
    "429": "rate_limited",
    "529": "overloaded",
    "500": "server_error",
    "502": "bad_gateway",
    "503": "unavailable",
    "504": "gateway_timeout",
    "400": "bad_request",
    "413": "too_large",
}
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


def _retry_headers(ctx: Context, fault: HttpFault) -> list[tuple[bytes, bytes]]:
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


def anthropic_error(ctx: Context, kind: str, request_id: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of an HTTP error of the Messages API."""
    fault = HTTP_FAULTS[kind]
    record = ctx.record
    if fault.html:
        record.error_type = ""
        return fault.status, [(b"content-type", b"text/html")], _HTML % (fault.status, fault.status)
    error: dict[str, Any] = {"type": fault.anthropic, "message": fault.message}
    record.error_type = fault.anthropic
    if kind == "spend_limit":
        record.error_code = "enforced_spend_limit_reached"
        error["details"] = {"error_code": record.error_code}
    body = msgspec.json.encode({"type": "error", "error": error, "request_id": request_id})
    return fault.status, [(b"content-type", b"application/json"), *_retry_headers(ctx, fault)], body


def openai_error(ctx: Context, kind: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of an HTTP error of the OpenAI API."""
    fault = HTTP_FAULTS[kind]
    record = ctx.record
    status = 503 if kind == "overloaded" else fault.status
    if fault.html:
        return status, [(b"content-type", b"text/html")], _HTML % (status, status)
    code: str | None = None
    kind_of = fault.openai
    if kind == "rate_limited":
        kind_of, code = "requests", "rate_limit_exceeded"
    elif kind == "spend_limit":
        code = "organization_spend_limit_exceeded"
    elif kind == "overloaded":
        code = "slow_down"
    record.error_type = kind_of
    record.error_code = code or ""
    error = {"message": fault.message, "type": kind_of, "param": None, "code": code}
    headers = [(b"content-type", b"application/json"), *_retry_headers(ctx, fault)]
    return status, headers, msgspec.json.encode({"error": error})
