"""The recorded bodies inside the project give what they say, in any chunking."""

from __future__ import annotations

import pytest

from tests.extract import corpus, samples

SLOTS = {
    "provider": "provider",
    "request_model": "request_model",
    "response_model": "response_model",
    "stream": "stream",
    "input_tokens_total": "input_tokens",
    "cache_read_tokens": "cache_read_tokens",
    "cache_creation_tokens": "cache_write_tokens",
    "output_tokens": "output_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "error_type": "error_type",
    "sse_events": "sse_events",
}


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
@pytest.mark.parametrize("exchange", samples.exchanges(), ids=lambda exchange: exchange.key)
def test_sample(exchange: corpus.Recorded, size: int) -> None:
    """A recorded body gives its facts."""
    found = corpus.read(exchange, corpus.pieces(size))
    assert found is not None
    expected = {name: exchange.truth[name] for name in SLOTS}
    assert expected == {name: getattr(found.facts, slot) for name, slot in SLOTS.items()}
    assert (exchange.truth["finish_reasons"] or []) == found.facts.finish_reasons
    assert [] == found.facts.malformed
