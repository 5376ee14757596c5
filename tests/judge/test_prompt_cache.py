"""prompt_cache: verdicts as the contract says them, reasons never wrong."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lz_otel._extract.request import decode_request, read_fields
from lz_otel._judge import signals
from lz_otel._judge.cost import Prices
from lz_otel._judge.prompt_cache import DIAGNOSES, PromptCache
from lz_otel._judge.prompt_explicit import minimum_tokens
from lz_otel.catalogue import MISS_REASONS
from lz_otel.model import Exchange, Facts, Request
from tests.judge.reference_cache import Ask, ReferenceCache, Told

SYSTEM = "You answer questions about the manual. " * 80  # about 780 tokens
LONG = "Chapter one of the manual tells how to begin. " * 500


def make(**arguments: Any) -> PromptCache:
    """The mechanism with the built-in markers."""
    return PromptCache(signals.load(), **arguments)


def exchange(
    body: dict[str, Any] | None,
    *,
    at: float = 1000.0,
    first: float | None = None,
    last: float | None = None,
    provider: str = "anthropic",
    path: str = "/v1/messages",
    route: str = "",
    key: str = "k",
    status: int = 200,
    headers: dict[str, str] | None = None,
    **known: Any,
) -> Exchange:
    """An ended call; ``known`` are facts."""
    raw = None if body is None else json.dumps(body).encode()
    request = Request("POST", f"api.{provider}.com", path, "", {"x-api-key": key}, raw)
    facts = Facts(provider, "chat", inference=True, llm_call=True)
    read_fields(facts, decode_request(request))
    facts.usage_seen, facts.input_tokens, facts.output_tokens = True, 5000, 10
    for name, value in known.items():
        setattr(facts, name, value)
    first = at + 0.1 if first is None else first
    return Exchange(
        request, facts, status=status, response_headers=headers or {}, ending="ok", started_at=at,
        first_byte_at=first, last_byte_at=first + 0.3 if last is None else last, route=route,
    )  # fmt: skip


def said(judge: PromptCache, given_: Exchange) -> tuple[str, str | None] | None:
    """Decision and reason."""
    result = judge.judge(given_)
    if result is None or result.verdict is None:
        return None
    return result.verdict.decision, result.verdict.reason


def counted(judge: PromptCache, given_: Exchange) -> dict[tuple[str, ...], float]:
    """Measurements by name and labels."""
    result = judge.judge(given_)
    return {} if result is None else {(m.name, *labels): value for m, labels, value in result.measurements}


def messages(*texts: str, mark: bool = True, system: Any = SYSTEM, **more: Any) -> dict[str, Any]:
    """A Messages request with a breakpoint behind its last message."""
    sent: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in texts]
    if mark:
        sent[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
    return {"model": "claude-opus-5", "max_tokens": 9, "system": system, "messages": sent, **more}


def chat(question: str, system: str = LONG, **more: Any) -> dict[str, Any]:
    """A Chat Completions request."""
    sent = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {"model": "gpt-6-sol", "messages": sent, **more}


# --- verdicts ---------------------------------------------------------------------------------


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
def test_verdict_of_anthropic(body: dict[str, Any] | None, known: dict[str, Any], verdict: str | None) -> None:
    """Read: hit; written, or a breakpoint and neither: miss; no breakpoint, no usage, no success: nothing."""
    found = said(make(), exchange(body, **known))
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
    found = said(make(), exchange(chat("q"), provider=provider, path="/v1/chat/completions", **known))
    assert (found[0] if found else None) == verdict


def test_a_replayed_answer_has_no_verdict() -> None:
    """A gateway's stored answer repeats the cache fields of an earlier call: they count once."""
    hit = exchange(messages("q"), cache_read_tokens=5, headers={"cf-aig-cache-status": "HIT"})
    assert said(make(), hit) is None


@pytest.mark.parametrize(
    ("known", "written"),
    [
        ({"cache_write_tokens": 100}, {"5m": 100.0}),
        ({"cache_write_tokens": 100, "cache_write_1h_tokens": 100}, {"1h": 100.0}),
        ({"cache_write_tokens": 100, "cache_write_1h_tokens": 40, "cache_write_5m_tokens": 60},
         {"5m": 60.0, "1h": 40.0}),
        ({"cache_write_tokens": 10, "cache_write_1h_tokens": 40}, {"1h": 10.0}),
    ],
)  # fmt: skip
def test_written_tokens_by_lifetime(known: dict[str, Any], written: dict[str, float]) -> None:
    """Without a split five minutes are the lifetime; the parts never exceed the whole."""
    rows = counted(make(), exchange(messages("q"), cache_read_tokens=1, **known))
    assert rows == {("lz.prompt_cache.write_tokens", ttl): tokens for ttl, tokens in written.items()}


def test_openais_writes_have_other_lifetimes() -> None:
    """OpenAI's entries live 30 minutes or 12 hours: not counted under Anthropic's lifetimes."""
    rows = counted(make(), exchange(chat("q"), provider="openai", cache_read_tokens=5, cache_write_tokens=9))
    assert rows == {}


@pytest.mark.parametrize(("read", "write", "saved"), [(4000, 0, 4000 * 4.5e-6), (0, 4000, -4000 * 1.25e-6)])
def test_money(read: int, write: int, saved: float) -> None:
    """Reading saves, writing costs more: the balance of the call, with its sign."""
    judge = make(prices=Prices.load(), now=lambda: 1.79e9)
    result = judge.judge(exchange(messages("q"), cache_read_tokens=read, cache_write_tokens=write))
    assert result is not None
    assert result.saved_usd == pytest.approx(saved, rel=1e-9)


def test_a_miss_without_a_price_saves_nothing_known() -> None:
    """No price, no saving; the verdict stands."""
    judge = make(prices=Prices.load())
    result = judge.judge(exchange(messages("q", model="claude-2"), cache_read_tokens=5, request_model="claude-2"))
    assert result is not None
    assert result.saved_usd is None


# --- the vendor's own diagnosis ---------------------------------------------------------------


@pytest.mark.parametrize(("word", "reason"), [*DIAGNOSES.items(), ("something_new", "unknown")])
def test_the_vendors_diagnosis_comes_first(word: str, reason: str) -> None:
    """The vendor's word is translated into the closed list, an unknown one into unknown."""
    given_ = exchange(messages("q"), cache_read_tokens=0, cache_write_tokens=9, cache_diagnosis=word)
    assert said(make(), given_) == ("miss", reason)
    assert reason in MISS_REASONS


@pytest.mark.parametrize("word", ["unavailable", "previous_message_not_found", "comparison_response_not_found"])
def test_no_diagnosis_leaves_it_to_us(word: str) -> None:
    """Where the vendor says that it does not know, our own reason holds."""
    given_ = exchange(messages("q"), cache_read_tokens=0, cache_write_tokens=9, cache_diagnosis=word)
    assert said(make(), given_) == ("miss", "first_use")


# --- one test per reason ------------------------------------------------------------------------

WROTE = {"cache_read_tokens": 0, "cache_write_tokens": 4900}
READ = {"cache_read_tokens": 4900, "cache_write_tokens": 0}
NOTHING = {"cache_read_tokens": 0, "cache_write_tokens": 0}


def after(before: dict[str, Any], now: dict[str, Any], *, gap: float = 10.0, **known: Any) -> Any:
    """What is said about a miss after one request that wrote."""
    judge = make()
    said(judge, exchange(before, **WROTE))
    return said(judge, exchange(now, at=1000.0 + gap, **{**WROTE, **known}))


TOOL = {"name": "look_up", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (messages("q", tools=[TOOL]), "tools_changed"),
        (messages("q", system="Other. " + SYSTEM), "system_changed"),
        (messages("other"), "history_changed"),
        (messages("q", model="claude-sonnet-5"), "model_changed"),
        (messages("q", "r", tool_choice={"type": "any"}), "history_changed"),
        (messages("q", "r", speed="fast"), "unknown"),
        (messages("q", *(f"turn {i}" for i in range(20))), "no_breakpoint"),
        (messages("q", *(f"turn {i}" for i in range(19))), "unknown"),
        (messages("q"), "unknown"),
    ],
)
def test_reason_of_a_miss(now: dict[str, Any], reason: str) -> None:
    """The first section that changed; a prefix out of reach; what should have hit is unknown."""
    assert after(messages("q"), now) == ("miss", reason)


@pytest.mark.parametrize(
    ("gap", "ttl", "reason"),
    [(299.0, "5m", "unknown"), (300.2, "5m", "expired"), (3599.0, "1h", "unknown"), (3600.2, "1h", "expired")],
)
def test_lifetime_counts_from_the_start_of_the_writing_request(gap: float, ttl: str, reason: str) -> None:
    """An entry is gone five minutes (or an hour) after the start of the request that wrote it, not before."""
    body = messages("q")
    body["messages"][0]["content"][0]["cache_control"]["ttl"] = ttl
    judge = make()
    said(judge, exchange(body, at=1000.0, first=1000.1, last=1290.0, **WROTE))
    assert said(judge, exchange(body, at=1000.0 + gap, **WROTE)) == ("miss", reason)


def test_a_hit_refreshes_the_lifetime() -> None:
    """A read after 200 s makes the entry live until 500 s: a miss at 400 s is not an expiry, at 501 s it is."""
    for gap, reason in ((400.0, "unknown"), (501.0, "expired")):
        judge = make()
        said(judge, exchange(messages("q"), **WROTE))
        said(judge, exchange(messages("q"), at=1200.0, **READ))
        assert said(judge, exchange(messages("q"), at=1000.0 + gap, **WROTE)) == ("miss", reason)


def test_a_moving_breakpoint_changes_nothing() -> None:
    """A dialogue that moves its breakpoint on, and writes texts in either form, is the same prefix."""
    judge = make()
    said(judge, exchange(messages("q"), **WROTE))
    plain = messages("q", "r")
    plain["messages"][0]["content"] = "q"
    assert said(judge, exchange(plain, at=1400.0, **WROTE)) == ("miss", "expired")


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"input_tokens": 100}, "below_minimum"),
        ({"input_tokens": 600}, "unknown"),
        ({"input_tokens": 100, "cache_read_tokens": None, "cache_write_tokens": None}, "below_minimum"),
        ({"input_tokens": 600, "cache_read_tokens": None, "cache_write_tokens": None}, "unknown"),
    ],
)
def test_nothing_read_and_nothing_written(known: dict[str, Any], reason: str) -> None:
    """Too short for its model: below the minimum; long enough and yet nothing: unknown."""
    assert said(make(), exchange(messages("q"), **{**NOTHING, **known})) == ("miss", reason)


def test_a_short_prefix_of_a_long_prompt() -> None:
    """The breakpoint's prefix counts, not the whole prompt."""
    body = messages("q" * 40_000, mark=False, system=[{"type": "text", "text": "Short.", "cache_control": {}}])
    assert said(make(), exchange(body, input_tokens=10_000, **NOTHING)) == ("miss", "below_minimum")


def test_what_came_before_was_too_short() -> None:
    """A dialogue that grows over the minimum: nothing changed, it is the first use."""
    judge = make()
    said(judge, exchange(messages("q"), **{**NOTHING, "input_tokens": 100}))
    assert said(judge, exchange(messages("q", LONG), at=1010.0, **WROTE)) == ("miss", "first_use")


def test_routes_and_keys_are_told_apart() -> None:
    """Another route has its own history, another key its own cache."""
    judge = make()
    said(judge, exchange(messages("q"), route="a", **WROTE))
    assert said(judge, exchange(messages("x"), at=1010.0, route="b", **WROTE)) == ("miss", "first_use")
    assert said(judge, exchange(messages("x"), at=1010.0, route="a", key="other", **WROTE)) == ("miss", "first_use")
    assert said(judge, exchange(messages("y"), at=1010.0, route="a", **WROTE)) == ("miss", "history_changed")


def test_the_workspace_decides_where_it_is_named() -> None:
    """Two keys of one workspace share a cache."""
    judge = make()
    named = {"anthropic-workspace-id": "w"}
    said(judge, exchange(messages("q"), key="one", headers=named, **WROTE))
    other = exchange(messages("x"), at=1010.0, key="two", headers=named, **WROTE)
    assert said(judge, other) == ("miss", "history_changed")


def test_bedrock_marks_are_cache_points() -> None:
    """Converse marks with elements of their own, which are no content."""
    def body(*more: str) -> dict[str, Any]:
        content = [{"text": LONG}, {"cachePoint": {"type": "default"}}, *({"text": t} for t in more)]
        return {"system": [{"text": SYSTEM}], "messages": [{"role": "user", "content": content}]}

    judge = make()
    known = {"provider": "aws.bedrock", "path": "/model/anthropic.claude-opus-5/converse", **WROTE}
    assert said(judge, exchange(body(), **known)) == ("miss", "first_use")
    assert said(judge, exchange(body("q"), at=1400.0, **known)) == ("miss", "expired")


# --- one thing at a time ------------------------------------------------------------------------


def test_requests_at_the_same_time() -> None:
    """A twin that was sent before the first answer began found nothing to read: a first use too."""
    judge = make()
    said(judge, exchange(messages("q"), at=1000.0, first=1001.0, **WROTE))
    assert said(judge, exchange(messages("q"), at=1000.5, first=1001.2, **WROTE)) == ("miss", "first_use")


def test_a_long_stream_that_ends_late_is_judged_by_its_start() -> None:
    """What later requests did while a stream went on does not explain its miss."""
    judge = make()
    said(judge, exchange(messages("a"), at=1000.0, **WROTE))
    said(judge, exchange(messages("b", tools=[TOOL]), at=1005.0, **WROTE))  # ended first, began later
    early = exchange(messages("c", tools=[TOOL]), at=1001.0, first=1001.5, last=1090.0, **WROTE)
    assert said(judge, early) == ("miss", "unknown")  # tools_changed or history_changed: it depends


def test_reasons_can_be_switched_off() -> None:
    """Without miss reasons nothing is digested; what the counts alone tell is still told."""
    judge = make(miss_reasons=False)
    said(judge, exchange(messages("q"), **WROTE))
    assert said(judge, exchange(messages("q"), at=1400.0, **WROTE)) == ("miss", "unknown")
    assert said(judge, exchange(messages("q"), **{**NOTHING, "input_tokens": 100})) == ("miss", "below_minimum")


@pytest.mark.parametrize(
    "raw",
    [b"", b"\xff\xfe", b'{"cache_control":', b'{"cache_control":1,"messages":{}}', b'["cache_control"]',
     b'{"messages":[1,"x",null,{"content":5},{"content":[1,{"type":3,"cache_control":{}}]}]}',
     b'{"system":7,"tools":"x","messages":[{"content":[' + b"[" * 3000 + b'"cache_control":1'],
)  # fmt: skip
def test_odd_bodies_are_not_explained(raw: bytes) -> None:
    """Whatever the body is, the counts give the verdict and nothing fails."""
    given_ = exchange(messages("q"), **WROTE)
    given_.facts.request_fields, given_.request.body = None, raw
    assert said(make(), given_) in (("miss", "unknown"), ("miss", "first_use"))


# --- OpenAI -------------------------------------------------------------------------------------

OPENAI = {"provider": "openai", "path": "/v1/chat/completions", "cache_read_tokens": 0, "input_tokens": 5900}


@pytest.mark.parametrize(
    ("now", "gap", "reason"),
    [
        (chat("other"), 310.0, "expired"),
        (chat("other"), 10.0, "unknown"),
        (chat("q", system="Other. " + LONG), 10.0, "system_changed"),
        (chat("q", tools=[{"type": "function", "function": {"name": "f"}}]), 10.0, "tools_changed"),
        (chat("q", model="gpt-6.1-sol"), 10.0, "model_changed"),
        (chat("q", prompt_cache_key="k"), 10.0, "unknown"),
        (chat("q", previous_response_id="resp_1"), 10.0, "unknown"),
    ],
)
def test_reason_of_a_miss_of_openai(now: dict[str, Any], gap: float, reason: str) -> None:
    """The same reasons without breakpoints: prefixes of 1024 tokens and more, idle for five minutes."""
    judge = make()
    assert said(judge, exchange(chat("q"), **OPENAI)) == ("miss", "first_use")
    assert said(judge, exchange(now, at=1000.0 + gap, **OPENAI)) == ("miss", reason)


def test_history_of_openai() -> None:
    """With a short system prompt the first message that differs is the reason."""
    judge = make()
    said(judge, exchange(chat(LONG, system="Short."), **OPENAI))
    assert said(judge, exchange(chat("x" + LONG, system="Short."), at=1010.0, **OPENAI)) == ("miss", "history_changed")


def test_a_stated_lifetime_of_openai() -> None:
    """With a lifetime of its own an entry is not thought expired after five minutes."""
    body = chat("q", prompt_cache_options={"ttl": "30m"})
    judge = make()
    said(judge, exchange(body, **OPENAI))
    assert said(judge, exchange(body, at=1400.0, **OPENAI)) == ("miss", "unknown")
    assert said(judge, exchange(body, at=1400.0 + 1801.0, **OPENAI)) == ("miss", "expired")


def test_the_responses_api() -> None:
    """Instructions are the system section, the input is the history."""
    judge = make()
    body = {"model": "gpt-6-sol", "instructions": LONG, "input": "q"}
    known = {**OPENAI, "path": "/v1/responses"}
    said(judge, exchange(body, **known))
    assert said(judge, exchange({**body, "instructions": "x" + LONG}, at=1001.0, **known)) == ("miss", "system_changed")


def test_other_automatic_caches_say_only_what_is_sure() -> None:
    """Lifetimes of other vendors are not documented: after a first use the reason is unknown."""
    judge = make()
    known = {**OPENAI, "provider": "deepseek"}
    found = [said(judge, exchange(chat("q", model=m), **known)) for m in ("deepseek-v4", "deepseek-v4", "deepseek-v5")]
    assert found == [("miss", "first_use"), ("miss", "unknown"), ("miss", "first_use")]


def test_openais_models_behind_an_unnamed_gateway() -> None:
    """A gateway whose host nobody has named serves OpenAI's models from OpenAI's cache."""
    judge = make()
    known = {**OPENAI, "provider": "other"}
    said(judge, exchange(chat("q", model="openai/gpt-6-sol"), **known))
    assert said(judge, exchange(chat("q", model="openai/gpt-6-sol"), at=1400.0, **known)) == ("miss", "expired")


# --- against a cache that remembers everything ----------------------------------------------------


def judged(judge: PromptCache, ask: Ask, told: Told, now: float) -> Any:
    """What we say about a request of the reference cache."""
    return said(judge, exchange(
        ask.body(), at=now, first=now + 0.05, last=now + 0.1, route=ask.route, input_tokens=told.total,
        cache_read_tokens=told.read, cache_write_tokens=told.written_5m + told.written_1h,
        cache_write_5m_tokens=told.written_5m, cache_write_1h_tokens=told.written_1h,
    ))  # fmt: skip


def text(number: int, size: int) -> str:
    """A text of its own of so many bytes."""
    return f"{number}:" + f"word{number} " * (size // 7)


_ASK = st.builds(
    lambda model, tools, system, history, marks, ttl, route, choice, reach: (
        model, tools, system, history, marks, ttl, route, choice, reach),
    st.sampled_from(["claude-opus-5", "claude-sonnet-4-5", "claude-haiku-4-5"]), st.integers(0, 2), st.integers(0, 3),
    st.lists(st.integers(0, 2), min_size=1, max_size=4), st.sets(st.sampled_from(["tools", "system", "last"])),
    st.sampled_from(["5m", "5m", "1h"]), st.sampled_from(["", "r"]), st.sampled_from(["", "", "any"]),
    st.sampled_from([0, 0, 0, 25]),
)  # fmt: skip


def ask_of(drawn: Any) -> Ask:
    """A request out of a few drawn numbers, so that prefixes are often shared."""
    model, tools, system, history, marks, ttl, route, choice, reach = drawn
    tool_names = tuple(f"tool_{tools}_{i}" for i in range(tools))
    systems = (text(system, (60, 1300, 5000, 30_000)[system]),)
    said_ = [text(10 * place + n, (40, 900, 4000)[n]) for place, n in enumerate(history)]
    said_ += [text(1000 + i, 30) for i in range(reach)]
    at = {"tools": len(tool_names) - 1, "system": len(tool_names), "last": len(tool_names) + len(said_)}
    positions = sorted({at[m] for m in marks if at[m] >= 0}) or [at["last"]]
    return Ask(model, tool_names, systems, tuple(said_), tuple((p, ttl) for p in positions), route, choice)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(_ASK, st.sampled_from([1.0, 1.0, 40.0, 290.0, 310.0, 3700.0])), min_size=2, max_size=14))
def test_never_a_wrong_reason(steps: list[tuple[Any, float]]) -> None:
    """Against a cache that remembers whole prefixes: its reason, or unknown; the verdict always."""
    cache, judge, now = ReferenceCache(), make(), 1000.0
    for drawn, wait in steps:
        now += wait
        ask = ask_of(drawn)
        told = cache.ask(ask, now)
        found = judged(judge, ask, told, now)
        assert found in ([("hit", None)] if told.read else [("miss", told.reason), ("miss", "unknown")])


def dialogues(calls: int, seed: int) -> list[tuple[Ask, float]]:
    """Mixed traffic: dialogues that grow, with edits, new tools, other models, pauses."""
    rng = random.Random(seed)
    out: list[tuple[Ask, float]] = []
    open_: list[dict[str, Any]] = []
    for number in range(calls):
        if not open_ or rng.random() < 0.15:
            open_.append({"model": rng.choice(["claude-opus-5", "claude-sonnet-4-5"]), "tools": rng.randint(0, 2),
                          "system": rng.randint(0, 3), "said": [], "route": rng.choice("abc")})  # fmt: skip
            del open_[:-12]
        talk = rng.choice(open_)
        change = rng.random()
        if change < 0.03:
            talk["model"] = rng.choice(["claude-opus-5", "claude-sonnet-4-5"])
        elif change < 0.06:
            talk["tools"] = rng.randint(0, 2)
        elif change < 0.09:
            talk["system"] = rng.randint(0, 3)
        elif change < 0.12 and talk["said"]:
            talk["said"][0] = text(50_000 + number, 200)
        for _ in range(24 if change > 0.98 else 1):
            talk["said"].append(text(number, rng.choice([60, 400, 2500])))
        names = tuple(f"tool_{talk['tools']}_{i}" for i in range(talk["tools"]))
        systems = (text(talk["system"], (60, 1500, 9000, 30_000)[talk["system"]]),)
        last = len(names) + len(talk["said"])
        marks = ((len(names), "1h"), (last, "5m")) if rng.random() < 0.7 else ((last, "5m"),)
        ask = Ask(talk["model"], names, systems, tuple(talk["said"]), marks, talk["route"])
        out.append((ask, rng.choice([0.2, 0.5, 1, 2, 5, 20]) if rng.random() < 0.98 else rng.choice([301, 3601])))
    return out


def test_five_thousand_mixed_calls() -> None:
    """At least 99 % of the reasons equal the truth, and the rest are unknown."""
    found: Counter[str] = Counter()
    reasons: Counter[str | None] = Counter()
    for seed in range(10):
        cache, judge, now = ReferenceCache(), make(), 1000.0
        for ask, wait in dialogues(500, seed):
            now += wait
            told = cache.ask(ask, now)
            truth = ("hit", None) if told.read else ("miss", told.reason)
            said_ = judged(judge, ask, told, now)
            found["same" if said_ == truth else "unknown" if said_ == ("miss", "unknown") else "wrong"] += 1
            reasons[told.reason] += 1
    assert found["wrong"] == 0
    assert found["same"] >= 0.99 * sum(found.values())
    assert set(reasons) >= set(MISS_REASONS) - {"unknown"}


# --- bounds ---------------------------------------------------------------------------------------


def test_memory_is_bounded() -> None:
    """Any number of prompts, routes and models leaves no more than the stated numbers of entries."""
    judge = make(max_scopes=4, max_entries=64)
    for number in range(600):
        model, route = f"claude-{number % 40}", f"r{number % 30}"
        said(judge, exchange(messages(f"q{number}", model=model), at=float(number), route=route, **WROTE))
        said(judge, exchange(chat(f"q{number}", model=model[7:], system=f"{number}{LONG}"), at=float(number),
                             route=route, **OPENAI))  # fmt: skip
    explicit, automatic = judge._explicit, judge._automatic
    sizes = [len(explicit._entries), len(explicit._lineage._routes), len(explicit._models), len(automatic._entries)]
    assert all(size <= bound for size, bound in zip(sizes, (64, 4, 4, 32), strict=True))
    assert max(len(models) for _, models in explicit._models.items()) <= 16


def test_no_text_is_kept() -> None:
    """Nothing that can be reached from the mechanism holds a piece of a prompt."""
    judge = make()
    said(judge, exchange(messages("CANARY-TEXT", system="CANARY-TEXT " + SYSTEM), key="CANARY-KEY", **WROTE))
    said(judge, exchange(chat("CANARY-TEXT", system="CANARY-TEXT " + LONG), key="CANARY-KEY", **OPENAI))
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
            slots = [n for c in type(item).__mro__ for n in getattr(c, "__slots__", ()) if not n.startswith("__")]
            stack += [getattr(item, n) for n in slots if hasattr(item, n)] + list(getattr(item, "__dict__", {}).values())
    assert len(seen) > 20


@pytest.mark.parametrize(
    ("model", "provider", "tokens"),
    [
        ("claude-opus-5", "anthropic", (512, 512)),
        ("claude-opus-5-5", "anthropic", (512, 512)),
        ("claude-sonnet-5", "anthropic", (1024, 1024)),
        ("claude-sonnet-5-5", "anthropic", (512, 512)),
        ("claude-sonnet-4-20250514", "anthropic", (1024, 1024)),
        ("claude-opus-4-1", "anthropic", (1024, 1024)),
        ("claude-opus-4-7", "anthropic", (2048, 4096)),
        ("claude-haiku-4-5-20251001", "anthropic", (4096, 4096)),
        ("claude-opus-5", "aws.bedrock", (512, 4096)),
        ("claude-next", "anthropic", (512, 4096)),
    ],
)
def test_minimum_by_model(model: str, provider: str, tokens: tuple[int, int]) -> None:
    """The vendor's table; where sources disagree or are silent, both ends."""
    assert minimum_tokens(model, provider) == tokens


def test_two_threads_at_once() -> None:
    """Threads that judge at once neither fail nor lose the bounds."""
    judge = make(max_entries=32, max_scopes=2)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(150):
                body = messages(f"{name}{number % 7}", model=f"claude-{number % 3}")
                said(judge, exchange(body, at=float(number * 100), route=f"r{number % 5}", **WROTE))
                said(judge, exchange(chat(f"{name}{number}"), at=float(number * 100), route="r", **OPENAI))
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(judge._explicit._entries) <= 32
