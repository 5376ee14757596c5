"""The sink of an answer's text: a digest, and a bounded piece of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lz_otel._judge.answer_text import AnswerText, answer_text
from lz_otel.model import Facts


def sink_of(*pieces: str, limit: int = 0) -> AnswerText:
    sink = AnswerText()
    sink.want_digest()
    sink.want_text(limit)
    for piece in pieces:
        sink(piece)
    return sink


@given(st.lists(st.text()), st.integers(0, 40))
def test_any_chunking_gives_the_same(pieces: list[str], limit: int) -> None:
    """Digest and kept text depend on the text alone, not on the pieces in which it came."""
    whole = "".join(pieces)
    sink = sink_of(*pieces, limit=limit)
    assert (sink.digest(), sink.text(), sink.size) == (sink_of(whole).digest(), whole[:limit], len(whole))


def test_nothing_that_is_not_wanted_is_kept() -> None:
    """Without a wish there is no digest and no text; without text there is no digest either."""
    sink = AnswerText()
    sink("secret")
    assert (sink.digest(), sink.text(), sink.size) == (None, "", 6)
    assert sink_of().digest() is None


def test_one_sink_serves_a_call() -> None:
    """A second mechanism gets the sink of the first; a sink that stood there before goes on being called."""
    facts = Facts("anthropic", "chat", inference=True, llm_call=True)
    earlier: list[str] = []
    facts.text_sink = earlier.append
    sink = answer_text(facts)
    assert answer_text(facts) is sink is facts.text_sink
    sink("a")
    assert earlier == ["a"]
