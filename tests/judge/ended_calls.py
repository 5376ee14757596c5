"""Builds ended calls for the judges, with the request decoded as the readers do it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lz_otel import catalogue
from lz_otel._extract.reader import Reader
from lz_otel._extract.request import decode_request
from lz_otel._ground.headers import head_of
from lz_otel._judge import judge_class, signals
from lz_otel._judge.request_body import CountedTokens
from lz_otel.model import EndedCall, Facts, Request

if TYPE_CHECKING:
    from lz_otel._judge.result import Result

MODEL = "claude-3-5-sonnet-20240620"


def body(text: str = "Sort these words.", **fields: Any) -> dict[str, Any]:
    """A Messages request."""
    return {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": text}], **fields}


def ended_call(
    request_headers: dict[str, str] | None = None,
    response_headers: dict[str, str] | None = None,
    *,
    request: dict[str, Any] | None = None,
    status: int = 200,
    ending: str = "ok",
    answer: str = "Done.",
    mechanism: Any = None,
    masks: tuple[Any, ...] = (),
    session: str | None = None,
    provider: str = "anthropic",
    host: str = "api.anthropic.com",
    **facts_: Any,
) -> EndedCall:
    """An ended call; ``mechanism`` gets its `begin` before the answer passes the sinks."""
    sent = Request(
        "POST",
        host,
        "/v1/messages",
        "",
        head_of(request_headers or {}),
        json.dumps(body() if request is None else request).encode(),
    )
    facts = Facts(provider, "chat", inference=True, llm_call=True)
    Reader(facts, decode_request(sent))
    if mechanism is not None:
        mechanism.begin(sent, facts)
    if facts.text_sink is not None:
        for piece in (answer[:3], answer[3:]):
            if piece:
                facts.text_sink(piece)
    for mask in masks:
        if facts.mask_sink is not None:
            facts.mask_sink(mask)
    facts.usage_seen = status == 200 and ending == "ok"
    facts.has_content = bool(answer)
    if facts.usage_seen:
        facts.input_tokens, facts.output_tokens = 100, 20
    for name, value in facts_.items():
        setattr(facts, name, value)
    return EndedCall(
        sent,
        facts,
        status=status,
        response_headers=head_of(response_headers or {}),
        ending=ending,
        started_at=0.0,
        ended_at=1.0,
        session=session,
    )


def make(name: str, **arguments: Any) -> Any:
    """The judge of a mechanism, with the built-in table."""
    arguments = {"signals": signals.load(), "counted": CountedTokens(), **arguments}
    return judge_class(name)(**arguments)


def said(result: Result | None) -> tuple[str | None, str | None]:
    """Decision and reason of a result, both of which must be in the catalogue's closed lists."""
    if result is None or result.verdict is None:
        return None, None
    mechanism, decision, reason = result.verdict[:3]
    assert decision in catalogue.VERDICTS
    assert (decision == "fallback") is (reason is not None)
    assert reason is None or reason in catalogue.FALLBACK_REASONS[mechanism]
    return result.verdict.decision, result.verdict.reason


def rows(result: Result | None) -> dict[tuple[str, ...], float]:
    """Measurements as ``{(metric name, *extra labels): number}``."""
    if result is None:
        return {}
    for metric, labels, value in result.measurements:
        extra = metric.attributes[len(catalogue.COMMON) :]
        assert len(extra) == len(labels)
        assert all(label in attribute.values for attribute, label in zip(extra, labels, strict=True))
        assert isinstance(value, float)
    return {(metric.name, *labels): value for metric, labels, value in result.measurements}
