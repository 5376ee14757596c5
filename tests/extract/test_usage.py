"""Counts of usage objects: what is exported was stated, or is a sum that the provider's own rule gives."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extract import corpus
from tests.extract.build import CHAT, MESSAGES, answer, dumps, sse, tokens
from tests.extract.test_fuzz import recordings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel.model import Facts

ASKED = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"
INVOKE = "https://bedrock-runtime.us-east-1.amazonaws.com/model/amazon.titan-text/invoke"


def chat(usage: Any, *more: Any) -> Facts:
    """The facts of a chat answer with this usage, streamed if more usage objects come after it."""
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "a"}}]}
    if more:
        end = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        said = [chunk | {"usage": one} for one in (usage, *more)]
        return answer(CHAT, ASKED | {"stream": True}, sse(*said, end, "[DONE]"))
    message = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}
    return answer(CHAT, ASKED, dumps({"id": "c", "model": "m", "choices": [message], "usage": usage}))


def of(prompt: int, completion: int, total: int | None = None, **parts: int) -> dict[str, Any]:
    """A usage object of OpenAI's shape."""
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    if "reasoning" in parts:
        usage["completion_tokens_details"] = {"reasoning_tokens": parts["reasoning"]}
    usage["prompt_tokens_details"] = {k: v for k, v in parts.items() if k != "reasoning"}
    return usage


@pytest.mark.parametrize(
    ("usage", "counts", "reasoning", "settled"),
    [
        (of(21, 0, 81, reasoning=60), (21, None, None, 60), 60, True),  # beside, the total says
        (of(21, 60, 81, reasoning=60), (21, None, None, 60), 60, True),  # inside, the total says
        (of(21, 70, 151, reasoning=60), (21, None, None, 130), 60, True),  # beside, though it would fit
        (of(21, 70, None, reasoning=60), (21, None, None, 70), 60, True),  # no total: inside, as documented
        (of(21, 5, 26, reasoning=60), (21, None, None, 5), None, False),  # neither: left out
        (of(21, 5, None, reasoning=60), (21, None, None, 5), None, False),
        (of(10, 5, 95, cached_tokens=80), (90, 80, None, 5), None, True),
        (of(10, 5, 115, cached_tokens=80, cache_write_tokens=20), (110, 80, 20, 5), None, True),
        (of(10, 5, 15, cached_tokens=80), (10, None, None, 5), None, False),
        (of(10, 5, 155, cached_tokens=80, reasoning=60), (90, 80, None, 65), 60, True),
        (of(10, 5, 215), (10, None, None, 5), None, False),  # the rest has no name: counts as stated
        (of(10, 5, 3), (10, None, None, 5), None, True),  # a total that is too small hides nothing
    ],
)
def test_the_total_decides(
    usage: dict[str, Any], counts: tuple[int | None, ...], reasoning: int | None, settled: bool
) -> None:
    """Reasoning and cached tokens are inside or beside, as the total has it; nothing is cut to fit."""
    facts = chat(usage)
    assert (counts, reasoning, settled) == (tokens(facts), facts.reasoning_tokens, facts.settled)
    left_out = any(usage.get(f"{kind}_tokens_details") for kind in ("prompt", "completion")) and not settled
    assert (["usage"] if left_out else []) == facts.malformed


def test_the_total_of_gemini_decides() -> None:
    """Thoughts and tool results are beside, as documented, unless the total says that they are inside."""
    stated = {"promptTokenCount": 46, "candidatesTokenCount": 100, "thoughtsTokenCount": 60}
    for total, output in ((206, 160), (146, 100), (None, 160)):
        body = {
            "candidates": [{"finishReason": "STOP"}],
            "usageMetadata": stated | {"totalTokenCount": total},
        }
        facts = answer(GEMINI, {"contents": []}, dumps(body))
        assert (46, output, 60, []) == (
            facts.input_tokens,
            facts.output_tokens,
            facts.reasoning_tokens,
            facts.malformed,
        )


def test_counts_of_a_stream_never_fall() -> None:
    """A later zero, null or missing value leaves what was stated; a larger one replaces it."""
    full = of(100, 30, 130, cached_tokens=80)
    for later in (of(0, 0, 0, cached_tokens=0), {}, {"prompt_tokens": None}, of(100, 30, 130)):
        assert (100, 80, None, 30) == tokens(chat(full, later))
    assert (100, 80, None, 31) == tokens(chat(of(7, 30), full, of(1, 31, 131)))


def test_counts_of_a_message_never_fall() -> None:
    """Anthropic: zeros at the start are replaced; a late zero wipes nothing; the end may state it as well."""
    start = {"input_tokens": 150, "cache_read_input_tokens": 2000, "output_tokens": 1}
    for begin, late, where in (
        (start, {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 45}, "message_delta"),
        ({"input_tokens": 0, "output_tokens": 0}, start | {"output_tokens": 45}, "message_delta"),
        (start, {"output_tokens": 45}, "message_stop"),
    ):
        message = {"id": "m", "type": "message", "model": "m", "content": [], "usage": begin}
        facts = answer(
            MESSAGES,
            ASKED | {"stream": True},
            sse({"type": "message_start", "message": message}, {"type": where, "usage": late}),
        )
        assert (2150, 2000, None, 45) == tokens(facts)


def test_usage_in_a_choice() -> None:
    """Moonshot states it in the last choice, plain or streamed."""
    usage = {"prompt_tokens": 210, "completion_tokens": 33, "total_tokens": 243, "cached_tokens": 64}
    end = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}
    said = {"id": "k", "model": "m", "choices": [{"index": 0, "delta": {"content": "a"}}]}
    streamed = answer(CHAT, ASKED | {"stream": True}, sse(said, said | {"choices": [end]}, "[DONE]"))
    plain = answer(CHAT, ASKED, dumps(said | {"choices": [end | {"message": {"content": "a"}}]}))
    for facts in (streamed, plain):
        assert ((210, 64, None, 33), True) == (tokens(facts), facts.usage_seen)


def test_whole_floats_are_counts() -> None:
    """``12.0`` is a count, ``12.5`` is none."""
    assert (12, None, None, 3) == tokens(
        chat(json.loads('{"prompt_tokens": 12.0, "completion_tokens": 3.0}'))
    )
    facts = chat({"prompt_tokens": 12.5, "completion_tokens": 3})
    assert ((None, None, None, 3), ["usage"]) == (tokens(facts), facts.malformed)


def test_kinds_of_tokens_that_contradict_the_whole() -> None:
    """What is more than the whole is left out: the whole stands, of a kind that is not known."""
    facts = chat(of(100, 5, 105, audio_tokens=60, image_tokens=60))
    assert ({"unknown": 100}, ["usage"]) == (facts.input_tokens_by_modality, facts.malformed)
    facts = chat(of(100, 5, 105, audio_tokens=60, image_tokens=20))
    assert {"text": 20, "audio": 60, "image": 20} == facts.input_tokens_by_modality


def test_counts_of_cohere_are_each_their_own() -> None:
    """Billed units are the input; cached tokens are of the used ones, and are exported as they are stated."""
    usage = {
        "billed_units": {"input_tokens": 51.0, "output_tokens": 7.0},
        "tokens": {"input_tokens": 267.0, "output_tokens": 9.0},
        "cached_tokens": 144.0,
    }
    facts = answer("https://api.cohere.com/v2/chat", ASKED, dumps({"id": "c", "usage": usage}))
    assert ((51, 144, None, 7), []) == (tokens(facts), facts.malformed)


def test_cached_tokens_in_headers() -> None:
    """Bedrock's headers count what a cache gave or took beside the rest."""
    head = {
        "content-type": "application/json",
        "x-amzn-bedrock-input-token-count": "4",
        "x-amzn-bedrock-cache-write-input-token-count": "100",
        "x-amzn-bedrock-cache-read-input-token-count": "2000",
        "x-amzn-bedrock-output-token-count": "20",
    }
    for url in (INVOKE, INVOKE.replace("amazon.titan-text", "anthropic.claude")):
        facts = answer(url, ASKED, b'{"content": []}', headers=head)
        assert ((2104, 2000, 100, 20), True) == (tokens(facts), facts.usage_seen)


# --- any recorded exchange, with its usage objects broken ------------------------------------------

USAGE = ("usage", "usageMetadata", "meta", "amazon-bedrock-invocationMetrics", "message")
# Sums that a provider's rule gives
SUMS = (
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"),
    ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
    ("promptTokenCount", "toolUsePromptTokenCount"),
    ("candidatesTokenCount", "thoughtsTokenCount"),
    ("total_input_tokens", "total_tool_use_tokens"),
    ("total_output_tokens", "total_thought_tokens"),
    ("completion_tokens", "reasoning_tokens"),
    ("output_tokens", "reasoning_tokens"),
    ("prompt_tokens", "cached_tokens", "cache_write_tokens"),
    ("input_tokens", "cached_tokens", "cache_write_tokens"),
    tuple(
        f"x-amzn-bedrock-{kind}-token-count" for kind in ("input", "cache-read-input", "cache-write-input")
    ),
    ("inputTokenCount", "cacheReadInputTokenCount", "cacheWriteInputTokenCount"),
)


def documents(exchange: corpus.Recorded) -> list[Any] | None:
    """The JSON of a plain body, or of each event of a stream; ``None`` where there is none."""
    try:
        return [json.loads(exchange.body)]
    except ValueError:
        pass
    found = []
    for line in exchange.body.replace(b"\r\n", b"\n").split(b"\n"):
        if line.startswith(b"data:"):
            try:
                found.append(json.loads(line[5:]))
            except ValueError:
                continue
    return found or None


def objects(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Where usage objects stand."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in USAGE and isinstance(inner, dict) and key != "message":
                yield value, key
            yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


def numbers(value: Any, found: dict[str, set[int]]) -> dict[str, set[int]]:
    """Every whole number by its name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, (int, float)) and inner == int(inner):
                found.setdefault(key, set()).add(int(inner))
            numbers(inner, found)
    elif isinstance(value, list):
        for inner in value:
            numbers(inner, found)
    return found


def allowed(docs: list[Any], headers: dict[str, str]) -> set[int]:
    """Every count that a statement, or a sum by a provider's rule, gives."""
    stated = numbers(docs, {})
    for name, text in headers.items():
        if "token-count" in name and text.isdigit():
            stated.setdefault(name, set()).add(int(text))
    found = set().union(*stated.values()) if stated else set()
    for keys in SUMS:
        for values in product(*([0, *stated.get(key, ())] for key in keys)):
            found.add(sum(values))
    return found


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_count_is_made_up(data: st.DataObject) -> None:
    """Usage objects dropped, doubled, reordered, nulled or changed: no count that nobody stated comes out."""
    exchange = data.draw(st.sampled_from(READABLE))
    docs = documents(exchange)
    assert docs is not None
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(objects(docs))
        if not places:
            break
        holder, key = data.draw(st.sampled_from(places))
        change = data.draw(st.sampled_from(["drop", "null", "double", "reorder", "zero", "number"]))
        if change == "drop":
            del holder[key]
        elif change == "null":
            holder[key] = None
        elif change == "zero":
            holder[key] = dict.fromkeys(holder[key], 0)
        elif change == "number":
            names = [n for n, v in holder[key].items() if isinstance(v, int)]
            if names:
                holder[key][data.draw(st.sampled_from(names))] = data.draw(st.integers(0, 5000))
        elif len(docs) > 1:
            at = data.draw(st.integers(0, len(docs) - 1))
            moved = docs[at] if change == "double" else docs.pop(at)
            docs.insert(data.draw(st.integers(0, len(docs))), moved)
    streamed = exchange.body.lstrip()[:1] not in (b"{", b"[")
    body = sse(*docs) if streamed else dumps(docs[0])
    reader = corpus.reader_of(exchange.request)
    assert reader is not None
    reader.head(exchange.status, exchange.headers)
    reader.feed(body, 0.0)
    reader.finish(True)
    facts = reader.facts
    stated = allowed(docs, exchange.headers)
    counts = (
        *tokens(facts),
        facts.reasoning_tokens,
        facts.cache_write_5m_tokens,
        facts.cache_write_1h_tokens,
    )
    assert {count for count in counts if count is not None} <= stated
    if facts.provider != "cohere":  # its cached and billed counts are not of each other
        if facts.input_tokens is not None:
            assert (facts.cache_read_tokens or 0) + (facts.cache_write_tokens or 0) <= facts.input_tokens
        if facts.output_tokens is not None:
            assert (facts.reasoning_tokens or 0) <= facts.output_tokens


READABLE = [
    e
    for e in recordings()
    if e.status < 400
    and documents(e)
    and corpus.reader_of(e.request) is not None
    and not e.body.startswith(b"\0")
]
