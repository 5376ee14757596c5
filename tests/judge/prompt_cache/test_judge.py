"""prompt_cache: verdicts, tokens written, money and the vendors' diagnoses."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw

from lz_otel._judge.prompt_cache import automatic, explicit, lineage
from lz_otel._judge.prompt_cache import judge as cache_judge
from lz_otel._judge.prompt_cache.digest import FIVE_MINUTES, ONE_HOUR, Top
from lz_otel._judge.prompt_cache.explicit import MAX_MODELS, Entry, Place
from lz_otel._judge.prompt_cache.judge import DIAGNOSES
from lz_otel._judge.prompt_cache.lineage import Sections
from lz_otel._price.cost import Prices
from lz_otel.catalogue import MISS_REASONS
from tests.judge.prompt_cache.prompt_calls import (
    LONG,
    NOTHING,
    OPENAI,
    SYSTEM,
    WROTE,
    chat,
    counted,
    ended_call,
    make,
    messages,
    said,
)

# --- verdicts ---------------------------------------------------------------------------------

if TYPE_CHECKING:
    from lz_otel._judge.prompt_cache import PromptCacheJudge


def fill(judge: PromptCacheJudge) -> None:
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
        for routes in (judge._explicit._lineage, judge._automatic._lineage, judge._others._lineage):
            for _ in range(80):
                routes.add(route, bits(30) / 7, bits(63), sections(), bits(63))
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


# --- bounds -----------------------------------------------------------------------------------


def test_reasons_can_be_switched_off() -> None:
    """Without miss reasons nothing is digested; what the counts alone tell is still told."""
    judge = make(miss_reasons=False)
    said(judge, ended_call(messages("q"), **WROTE))
    assert said(judge, ended_call(messages("q"), at=1400.0, **WROTE)) == ("miss", "unknown")
    assert said(judge, ended_call(messages("q"), **{**NOTHING, "input_tokens": 100})) == (
        "miss",
        "below_minimum",
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b'{"cache_control":',
        b'{"cache_control":1,"messages":{}}',
        b'["cache_control"]',
        b'{"messages":[1,"x",null,{"content":5},{"content":[1,{"type":3,"cache_control":{}}]}]}',
        b'{"system":7,"tools":"x","messages":[{"content":[' + b"[" * 3000 + b'"cache_control":1',
    ],
)
def test_odd_bodies_are_not_explained(raw: bytes) -> None:
    """Whatever the body is, the counts give the verdict and nothing fails."""
    given_ = ended_call(messages("q"), **WROTE)
    given_.facts.request_fields, given_.request.body = None, raw
    assert said(make(), given_) in (("miss", "unknown"), ("miss", "first_use"))


def small(monkeypatch: pytest.MonkeyPatch, entries: int, routes: int) -> PromptCacheJudge:
    """The mechanism with less memory."""
    for module in (automatic, explicit, lineage, cache_judge):
        monkeypatch.setattr(module, "MAX_ENTRIES", entries, raising=False)
        monkeypatch.setattr(module, "MAX_ROUTES", routes, raising=False)
    return make()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of prompts, routes and models leaves no more than the stated numbers of entries."""
    judge = small(monkeypatch, entries=64, routes=4)
    for number in range(600):
        model, route = f"claude-{number % 40}", f"r{number % 30}"
        said(judge, ended_call(messages(f"q{number}", model=model), at=float(number), route=route, **WROTE))
        said(
            judge,
            ended_call(
                chat(f"q{number}", model=model[7:], system=f"{number}{LONG}"),
                at=float(number),
                route=route,
                **OPENAI,
            ),
        )
    with_marks, without = judge._explicit, judge._automatic
    sizes = [
        len(with_marks._entries),
        len(with_marks._lineage._routes),
        len(with_marks._models),
        len(without._entries),
    ]
    assert all(size <= bound for size, bound in zip(sizes, (64, 4, 4, 32), strict=True))
    assert max(len(models) for _, models in with_marks._models.items()) <= 16


def test_no_text_is_kept() -> None:
    """Nothing that can be reached from the mechanism holds a piece of a prompt."""
    judge = make()
    said(
        judge, ended_call(messages("CANARY-TEXT", system="CANARY-TEXT " + SYSTEM), key="CANARY-KEY", **WROTE)
    )
    said(judge, ended_call(chat("CANARY-TEXT", system="CANARY-TEXT " + LONG), key="CANARY-KEY", **OPENAI))
    seen: set[int] = set()
    stack: list[Any] = [judge]
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, (type, int, float)) or item is judge.signals:
            continue
        seen.add(id(item))
        if isinstance(item, (str, bytes)):
            assert "CANARY" not in str(item)
        elif isinstance(item, dict):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple, set, frozenset)) or type(item).__name__ == "deque":
            stack += list(item)
        else:
            slots = [
                n for c in type(item).__mro__ for n in getattr(c, "__slots__", ()) if not n.startswith("__")
            ]
            stack += [getattr(item, n) for n in slots if hasattr(item, n)] + list(
                getattr(item, "__dict__", {}).values()
            )
    assert len(seen) > 20


def test_two_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that judge at once neither fail nor lose the bounds."""
    judge = small(monkeypatch, entries=32, routes=2)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(150):
                body = messages(f"{name}{number % 7}", model=f"claude-{number % 3}")
                said(judge, ended_call(body, at=float(number * 100), route=f"r{number % 5}", **WROTE))
                said(judge, ended_call(chat(f"{name}{number}"), at=float(number * 100), route="r", **OPENAI))
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(judge._explicit._entries) <= 32
