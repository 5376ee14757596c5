"""Documents of any size keep what is short in them, and little is held."""

from __future__ import annotations

import base64
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lz_otel._extract import candidate, identify
from lz_otel._extract.skim import BLOCK, Skim, skim
from tests.extract.build import CHAT, answer, dumps, request

if TYPE_CHECKING:
    from lz_otel.model import Facts

EMBEDDINGS = "https://api.openai.com/v1/embeddings"
USAGE = {"prompt_tokens": 777, "completion_tokens": 3, "total_tokens": 780}
NUMBERS = [round(random.Random(5).uniform(-1, 1), 10) for _ in range(3072)]
IMAGE = base64.b64encode(random.Random(5).randbytes(6 << 20)).decode()


def read(url: str, body: bytes, size: int = 65_536) -> Facts:
    """The facts of an answer in pieces of a size."""
    asked = {"model": "m", "input": "x", "messages": []}
    return answer(url, asked, *(body[at : at + size] for at in range(0, len(body), size)))


def chat(content: str, **more: Any) -> dict[str, Any]:
    """A chat answer with this text; its usage stands last."""
    choice = {"index": 0, "message": {"content": content}, "finish_reason": "stop", **more}
    return {"id": "c", "model": "m", "choices": [choice], "usage": USAGE}


EMBEDDED = {"data": [{"embedding": NUMBERS, "index": i} for i in range(150)], "model": "m", "usage": USAGE}
LARGE = {
    "embeddings": (EMBEDDINGS, EMBEDDED),
    "one list": (EMBEDDINGS, {"data": [{"embedding": NUMBERS * 150}], "model": "m", "usage": USAGE}),
    "usage first": (EMBEDDINGS, {"usage": USAGE} | EMBEDDED),
    "an image": (CHAT, chat(IMAGE)),
    "usage between": (CHAT, {"a": IMAGE, "usage": USAGE} | chat(IMAGE)),
    "backslashes": (CHAT, chat("\\" * 3_000_000 + '"')),
    "text in quotes": (CHAT, chat('say "hi" ,"usage":{} \n' * 300_000)),
    "many short ones": (CHAT, chat("a", logprobs=[{"token": 'x"', "bytes": [1]}] * 200_000)),
}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", LARGE)
def test_large_answers_keep_their_usage(name: str, indent: int | None) -> None:
    """Embeddings, images and long text of several MiB: all that is short in them is read."""
    url, said = LARGE[name]
    body = json.dumps(said, indent=indent).encode()
    assert len(body) > 4 << 20
    for size in (65_536, 1_000_003, len(body)):
        facts = read(url, body, size)
        assert (777, True, []) == (facts.input_tokens, facts.terminal, facts.malformed)
        assert facts.usage_seen


def test_what_is_given_up_is_said() -> None:
    """Usage in the middle of what is large without anything long is not found, and that is noted."""
    dense = [{"token": 'x"', "bytes": [1]}] * 200_000
    facts = read(CHAT, dumps({"id": "c", "model": "m", "a": dense, "usage": USAGE, "b": dense}))
    assert (None, True) == (facts.input_tokens, facts.too_large)


def test_little_is_held() -> None:
    """However long a document is: a block, and what is short."""
    taken, piece = Skim(), IMAGE[: 1 << 16].encode()
    taken.write(b'{"a": "')
    for _ in range(1000):
        taken.write(piece)
        assert len(taken._held) + len(taken._kept) <= 2 * BLOCK
    taken.write(b'", "usage": {"prompt_tokens": 7}}')
    assert {"prompt_tokens": 7} == json.loads(taken.value())["usage"]


STRINGS = st.sampled_from(["", "a", "\\", '"', "a\\", '\\"', "[1]", "{", "é"])
LONG = st.builds(lambda unit, times: unit * times, STRINGS, st.sampled_from([1, 600, 1200]))
VALUES = st.recursive(
    st.one_of(LONG, st.just([0.25] * 700), st.integers(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(LONG, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(value=VALUES, cut=st.integers(1, 4000), ascii_only=st.booleans())
def test_what_is_left_is_json(value: Any, cut: int, ascii_only: bool) -> None:
    """Whatever a document holds and wherever its blocks end: what is short stays as it is."""
    body = json.dumps({"a": value, "usage": USAGE}, ensure_ascii=ascii_only).encode()
    taken = Skim()
    for at in range(0, len(body), cut):
        taken._held += body[at : at + cut]
        taken._shorten(bytes(taken._held))
    left = json.loads(taken.value().decode("utf-8", "replace"))
    assert USAGE == left["usage"]
    assert {"a", "usage"} == set(left)


@pytest.mark.parametrize("size", [5, 33])
@pytest.mark.parametrize("content", [IMAGE, 'say "hi" to\n' * 400_000])
def test_large_requests_are_calls(size: int, content: str) -> None:
    """At a host that is not known too, whatever the order of the members."""
    text = content * (1 + (size << 20) // len(content))
    messages = {"messages": [{"role": "user", "content": text}]}
    for asked in ({"model": "m", "stream": True} | messages, messages | {"model": "m", "stream": True}):
        made = request("https://nowhere.example/v1/chat/completions", asked)
        found = identify(candidate("POST", made.path) or (), made)
        assert found is not None
        assert ("m", True) == (found.facts.request_model, found.facts.stream)


def test_short_documents_stay_as_they_are() -> None:
    """Up to a block nothing is left out."""
    body = dumps({"a": IMAGE[:1_000_000]})
    assert (body, True) == skim(body, 1 << 20)
