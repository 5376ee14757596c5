"""prompt_cache: verdicts, tokens written, money and the vendors' diagnoses."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw

from lz_otel._judge.prompt_cache.digest import FIVE_MINUTES, ONE_HOUR, Top
from lz_otel._judge.prompt_cache.explicit import MAX_MODELS, Entry, Place
from lz_otel._judge.prompt_cache.judge import DIAGNOSES
from lz_otel._judge.prompt_cache.lineage import Sections
from lz_otel._price.cost import Prices
from lz_otel.catalogue import MISS_REASONS
from tests.judge.prompt_cache.prompt_calls import chat, counted, ended_call, make, messages, said

# --- verdicts ---------------------------------------------------------------------------------

if TYPE_CHECKING:
    from lz_otel._judge.prompt_cache import PromptCache


def fill(judge: PromptCache) -> None:
    """Put in more than it may hold."""
    bits = random.Random(1).getrandbits

    def entry() -> Entry:
        return Entry(bits(30) / 7, bits(30) / 7, FIVE_MINUTES, ONE_HOUR, certain=True)

    def sections() -> Sections:
        return Sections(bits(63), bits(63), bits(63))

    for _ in range(17_000):
        judge._explicit._entries.put(bits(63), entry())
        judge._automatic._entries.put(bits(63), entry())
        judge._explicit._tokens.put(bits(63), bits(12))
        judge._places.put(bits(63), Place(bits(63), bits(63), (512, 4096), bits(63), bits(63)))
    for route in range(300):
        for cache in (judge._explicit, judge._automatic):
            cache._models.put(route, tuple(bits(63) for _ in range(MAX_MODELS)))
        for lineage in (judge._explicit._lineage, judge._automatic._lineage, judge._others._lineage):
            for _ in range(80):
                lineage.add(route, bits(30) / 7, bits(63), sections(), bits(63))
    for _ in range(2500):
        judge._digester.prompt(Top(messages=[Raw(b'{"role":"user","content":"%x"}' % bits(63))]))


@pytest.mark.parametrize(
    ("body", "known", "verdict"),
    [
        (messages("q"), {"cache_read_tokens": 5, "cache_write_tokens": 0}, "hit"),
        (messages("q"), {"cache_read_tokens": 5, "cache_write_tokens": 7}, "hit"),
        (messages("q"), {"cache_read_tokens": 0, "cache_write_tokens": 7}, "miss"),
        (messages("q"), {"cache_read_tokens": 0, "cache_write_1h_tokens": 7}, "miss"),
        (messages("q"), {"cache_read_tokens": 0, "cache_write_tokens": 0}, "miss"),
        (messages("q", mark=False), {"cache_read_tokens": 0, "cache_write_tokens": 0}, None),
        (messages("q", mark=False, cache_control={"type": "ephemeral"}), {"cache_read_tokens": 0}, "miss"),
        (messages('say "cache_control" aloud', mark=False), {"cache_read_tokens": 0}, None),
        (messages("cache_control", mark=False), {"cache_read_tokens": 0}, None),
        (messages("q"), {"input_tokens": None, "cache_read_tokens": None}, None),
        (None, {"cache_read_tokens": 0, "cache_write_tokens": 0}, None),
        (messages("q"), {"status": 529, "input_tokens": None}, None),
        (messages("q"), {"inference": False, "cache_read_tokens": 5}, None),
    ],
)
def test_verdict_of_anthropic(
    body: dict[str, Any] | None, known: dict[str, Any], verdict: str | None
) -> None:
    """Read: hit; written, or a breakpoint and neither: miss; no breakpoint, no usage, no success: nothing."""
    found = said(make(), ended_call(body, **known))
    assert (found[0] if found else None) == verdict


@pytest.mark.parametrize(
    ("provider", "known", "verdict"),
    [
        ("openai", {"cache_read_tokens": 1}, "hit"),
        ("openai", {"cache_read_tokens": 0, "input_tokens": 1024}, "miss"),
        ("openai", {"cache_read_tokens": 0, "input_tokens": 1023}, None),
        ("openai", {"cache_read_tokens": None, "input_tokens": 5000}, None),
        ("deepseek", {"cache_read_tokens": 0, "input_tokens": 5000}, "miss"),
        ("gcp.gemini", {"cache_read_tokens": None, "request_model": "gemini-3-flash"}, "miss"),
        ("gcp.gemini", {"cache_read_tokens": None, "request_model": "models/gemini-1.5-pro"}, None),
        ("gcp.gemini", {"cache_read_tokens": None, "usage_seen": False}, None),
        ("gcp.gemini", {"cache_read_tokens": 7}, "hit"),
    ],
)
def test_verdict_of_automatic_caches(provider: str, known: dict[str, Any], verdict: str | None) -> None:
    """Cached tokens: hit; 1024 tokens and a stated 0: miss; what is not stated gives no verdict."""
    found = said(make(), ended_call(chat("q"), provider=provider, path="/v1/chat/completions", **known))
    assert (found[0] if found else None) == verdict


@pytest.mark.parametrize(
    ("known", "written"),
    [
        ({"cache_write_tokens": 100}, {"5m": 100.0}),
        ({"cache_write_tokens": 100, "cache_write_1h_tokens": 100}, {"1h": 100.0}),
        (
            {"cache_write_tokens": 100, "cache_write_1h_tokens": 40, "cache_write_5m_tokens": 60},
            {"5m": 60.0, "1h": 40.0},
        ),
        ({"cache_write_tokens": 10, "cache_write_1h_tokens": 40}, {"1h": 10.0}),
    ],
)
def test_written_tokens_by_lifetime(known: dict[str, Any], written: dict[str, float]) -> None:
    """Without a split five minutes are the lifetime; the parts never exceed the whole."""
    rows = counted(make(), ended_call(messages("q"), cache_read_tokens=1, **known))
    assert rows == {("lz.prompt_cache.write_tokens", ttl): tokens for ttl, tokens in written.items()}


def test_openais_writes_have_other_lifetimes() -> None:
    """OpenAI's entries live 30 minutes or 12 hours: not counted under Anthropic's lifetimes."""
    rows = counted(
        make(), ended_call(chat("q"), provider="openai", cache_read_tokens=5, cache_write_tokens=9)
    )
    assert rows == {}


@pytest.mark.parametrize(("read", "write", "saved"), [(4000, 0, 4000 * 4.5e-6), (0, 4000, -4000 * 1.25e-6)])
def test_money(read: int, write: int, saved: float) -> None:
    """Reading saves, writing costs more: the balance of the call, with its sign."""
    judge = make(prices=Prices.load(), now=lambda: 1.79e9)
    result = judge.judge(ended_call(messages("q"), cache_read_tokens=read, cache_write_tokens=write))
    assert result is not None
    assert result.saved_usd == pytest.approx(saved, rel=1e-9)


def test_a_miss_without_a_price_saves_nothing_known() -> None:
    """No price, no saving; the verdict stands."""
    judge = make(prices=Prices.load())
    result = judge.judge(
        ended_call(messages("q", model="claude-2"), cache_read_tokens=5, request_model="claude-2")
    )
    assert result is not None
    assert result.saved_usd is None


# --- the vendor's own diagnosis ---------------------------------------------------------------


@pytest.mark.parametrize(("word", "reason"), [*DIAGNOSES.items(), ("something_new", "unknown")])
def test_the_vendors_diagnosis_comes_first(word: str, reason: str) -> None:
    """The vendor's word is translated into the closed list, an unknown one into unknown."""
    given_ = ended_call(messages("q"), cache_read_tokens=0, cache_write_tokens=9, cache_diagnosis=word)
    assert said(make(), given_) == ("miss", reason)
    assert reason in MISS_REASONS


@pytest.mark.parametrize(
    "word", ["unavailable", "previous_message_not_found", "comparison_response_not_found"]
)
def test_no_diagnosis_leaves_it_to_us(word: str) -> None:
    """Where the vendor says that it does not know, our own reason holds."""
    given_ = ended_call(messages("q"), cache_read_tokens=0, cache_write_tokens=9, cache_diagnosis=word)
    assert said(make(), given_) == ("miss", "first_use")


def test_a_cost_of_the_providers_own_tells_no_saving() -> None:
    """Where only the provider's figure is known, what reading saved is not."""
    judge = make(prices=Prices.load())
    result = judge.judge(ended_call(messages("q"), cache_read_tokens=5, cost_reported=0.01))
    assert result is not None
    assert result.saved_usd is None
