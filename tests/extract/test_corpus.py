"""Every recorded exchange gives exactly its truth, however its body is split."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.extract import corpus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lz_otel.model import Facts

SPLITS: dict[str, Callable[[bytes], list[bytes]]] = {
    "whole": corpus.whole,
    "events": corpus.events,
    "7 bytes": corpus.pieces(7),
    "1 byte": corpus.pieces(1),
}
# Fields of the truth and of the facts that must be equal.
FIELDS = {
    "request_model": "request_model",
    "response_model": "response_model",
    "stream": "stream",
    "input_tokens_total": "input_tokens",
    "cache_read_tokens": "cache_read_tokens",
    "cache_creation_tokens": "cache_write_tokens",
    "cache_creation_5m_tokens": "cache_write_5m_tokens",
    "cache_creation_1h_tokens": "cache_write_1h_tokens",
    "output_tokens": "output_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "response_id": "response_id",
    "service_tier": "service_tier",
    "error_type": "error_type",
    "sse_events": "sse_events",
}


def differences(truth: dict[str, Any], facts: Facts | None) -> list[str]:
    """What the facts say otherwise than the truth."""
    calls = facts is not None and facts.llm_call
    found = []
    if truth["is_llm_call"] != calls:
        found.append(f"is_llm_call {truth['is_llm_call']} != {calls}")
    if facts is None:
        return found
    extra = truth["extra"]
    providers = [truth["provider"] or "other", *extra.get("provider_alt", ())]
    if facts.provider not in providers:
        found.append(f"provider {providers} != {facts.provider}")
    operation = {"generate_content": "chat"}.get(facts.operation, facts.operation)
    if truth["operation"] != operation:
        found.append(f"operation {truth['operation']} != {operation}")
    if facts.operation == "generate_content" and extra.get("operation_otel") != "generate_content":
        found.append(f"operation_otel {extra.get('operation_otel')} != {facts.operation}")
    for said, slot in FIELDS.items():
        if truth[said] != getattr(facts, slot):
            found.append(f"{said} {truth[said]!r} != {getattr(facts, slot)!r}")
    if truth["input_tokens_uncached"] is not None and facts.input_tokens is not None:
        uncached = facts.input_tokens - (facts.cache_read_tokens or 0) - (facts.cache_write_tokens or 0)
        if truth["input_tokens_uncached"] != uncached:
            found.append(f"input_tokens_uncached {truth['input_tokens_uncached']} != {uncached}")
    if [str(reason) for reason in truth["finish_reasons"] or ()] != facts.finish_reasons:
        found.append(f"finish_reasons {truth['finish_reasons']} != {facts.finish_reasons}")
    if extra.get("counted_tokens") != facts.counted_tokens:
        found.append(f"counted_tokens {extra.get('counted_tokens')} != {facts.counted_tokens}")
    if bool(extra.get("stream_error")) != facts.stream_error:
        found.append(f"stream_error {extra.get('stream_error')} != {facts.stream_error}")
    if extra.get("upstream_provider") != facts.upstream_provider:
        found.append(f"upstream_provider {extra.get('upstream_provider')} != {facts.upstream_provider}")
    cost = extra.get("cost_reported")
    cost = cost["total_cost"] if isinstance(cost, dict) else cost
    if cost != facts.cost_reported:
        found.append(f"cost_reported {cost} != {facts.cost_reported}")
    if facts.malformed:
        found.append(f"malformed {facts.malformed}")
    return found


@pytest.mark.parametrize("split", SPLITS)
def test_truth(shared: Path, split: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each exchange gives its truth, in this splitting of the body."""
    wrong: dict[str, list[str]] = {}
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for exchange in corpus.exchanges(shared):
        reader = corpus.read(exchange, SPLITS[split])
        found = differences(exchange.truth, None if reader is None else reader.facts)
        total[exchange.api] += 1
        right[exchange.api] += not found
        if found:
            wrong[exchange.key] = found
    with capsys.disabled():
        print(f"\n{split}: {sum(right.values())}/{sum(total.values())} exchanges exact")
        if split == "whole":
            for api, number in sorted(total.items()):
                print(f"  {api:20} {right[api]}/{number}")
    assert {} == wrong


def test_endings(shared: Path) -> None:
    """A complete answer is terminal, one that broke off is not."""
    broken = {
        "anthropic-constructed-stream-error-midway[0]",
        "bedrock-converse-constructed-stream-throttled[0]",
        "groq-stream-error-event[0]",
    }
    found = set()
    for exchange in corpus.exchanges(shared):
        reader = corpus.read(exchange, corpus.whole)
        if reader is not None and not reader.facts.terminal:
            found.add(exchange.key)
    assert broken == found
