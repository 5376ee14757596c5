"""Good answers that go wrong on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel.lab.simulator._messages import event
from lz_otel.lab.simulator._tokens import encode
from lz_otel.lab.simulator._truth import hide

if TYPE_CHECKING:
    from lz_otel.lab.simulator._context import Answer, Context


def break_messages(ctx: Context, answer: Answer, fault: str) -> None:
    """Make a good answer go wrong on its way."""
    record = ctx.record
    record.fault = fault
    pieces = answer.pieces
    middle = max(1, len(pieces) // 2)
    if fault == "slow_headers":
        answer.wait += ctx.behaviour.faults.stall_ms / 1000.0
        return
    if fault == "disconnect":
        answer.cut = "disconnect"
        record.usage_sent, record.ending = "none", "disconnect"
        hide(record, everything=True)
        return
    if fault == "malformed_json":
        record.ending = "malformed"
        if answer.chunked:
            bad = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n'
            pieces.insert(min(2, len(pieces) - 1), (0.0, bad))
            record.usage_sent = "start"
        else:
            pieces[0] = (0.0, pieces[0][1][: len(pieces[0][1]) // 2])
            record.usage_sent = "none"
            hide(record)
        return
    record.ending = fault
    record.usage_sent = "start" if answer.chunked else "none"
    if not answer.chunked:
        hide(record)
    if fault == "stream_error":
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        record.error_type = "overloaded_error"
        answer.pieces = [*pieces[:middle], (0.0, event("error", error))]
    elif fault == "no_stop":
        answer.pieces = pieces[:-1]
    else:  # drop, stall
        answer.cut = fault
        answer.cut_after = middle
        answer.stall = ctx.behaviour.faults.stall_ms / 1000.0 if fault == "stall" else 0.0


def break_openai(ctx: Context, answer: Answer, fault: str) -> None:
    """Make a good answer go wrong on its way; a broken stream never states its usage."""
    record = ctx.record
    record.fault = fault
    pieces = answer.pieces
    middle = max(1, len(pieces) // 2)
    if fault == "slow_headers":
        answer.wait += ctx.behaviour.faults.stall_ms / 1000.0
        return
    record.usage_sent = "none"
    hide(record, everything=fault == "disconnect")
    record.ending = "malformed" if fault == "malformed_json" else fault
    if fault == "malformed_json":
        if answer.chunked:
            pieces.insert(min(2, len(pieces) - 1), (0.0, b'data: {"id":"chatcmpl-sim","choices":[{"ind\n\n'))
        else:
            pieces[0] = (0.0, pieces[0][1][: len(pieces[0][1]) // 2])
    elif fault == "stream_error":
        record.error_type = "server_error"
        error = {"message": "The server had an error", "type": "server_error", "param": None, "code": None}
        if record.api == "chat":
            data = b"data: " + encode({"error": error}) + b"\n\n"
        else:
            body = {
                "type": "error",
                "code": "server_error",
                "message": error["message"],
                "param": None,
                "sequence_number": 99,
            }
            data = b"event: error\ndata: " + encode(body) + b"\n\n"
        answer.pieces = [*pieces[:middle], (0.0, data)]
    elif fault == "no_stop":
        answer.pieces = pieces[:-1]
    else:  # disconnect, drop, stall
        answer.cut = fault
        answer.cut_after = middle
        answer.stall = ctx.behaviour.faults.stall_ms / 1000.0 if fault == "stall" else 0.0
