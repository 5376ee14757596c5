"""Two texts resemble each other by the cosine of their word counts, told from digests."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel._judge.simhash import BITS, MAX_WORDS, Shape, cosine, differing_bits, resembles, shape


def made(text: str) -> Shape:
    found = shape(text)
    assert found is not None
    return found


@given(st.text())
def test_equal_texts(text: str) -> None:
    """The same text has the same shape, of 128 bits and one digest per word."""
    found = shape(text)
    assert found == shape(text)
    assert found is None or (found.mark < 1 << BITS and cosine(found, found) == pytest.approx(1.0))


def test_no_words() -> None:
    """A text without words has no shape."""
    assert shape(" .,;\n") is None


def test_bounded() -> None:
    """Of a long text its first and last words count, up to the limit."""
    front, end = (
        " ".join(f"a{chr(97 + n % 26)}" for n in range(600)),
        " ".join(f"b{chr(97 + n % 26)}" for n in range(600)),
    )
    long = made(f"{front} {'x ' * 50_000} {end}")
    assert len(long.words) == MAX_WORDS
    assert {made(word).words[0] for word in ("aa", "bb")} < set(long.words)


@pytest.mark.parametrize("count", [1, 2, MAX_WORDS - 1, MAX_WORDS])
def test_short_texts_are_whole(count: int) -> None:
    """A text within the limit keeps all its words."""
    assert len(made("w " * count).words) == count


def test_cjk_characters_are_words() -> None:
    """Chinese text is compared character by character."""
    assert cosine(made("北京秋天的诗"), made("上海秋天的诗")) == pytest.approx(4 / 6)


def exact(one: list[str], other: list[str]) -> float:
    a, b = Counter(one), Counter(other)
    dot = sum(a[w] * b[w] for w in a)
    return dot / math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1), st.lists(st.sampled_from("abcdefgh"), min_size=1))
def test_cosine_is_exact(one: list[str], other: list[str]) -> None:
    """The cosine from digests equals the cosine of the word counts."""
    assert cosine(made(" ".join(one)), made(" ".join(other))) == pytest.approx(exact(one, other))


def words(rng: random.Random, count: int) -> list[str]:
    return ["w" + "".join(rng.choice("abcdefghij") for _ in range(6)) for _ in range(count)]


@pytest.mark.parametrize(("kept", "expected"), [(94, True), (91, False), (50, False)])
def test_found_among_many(kept: int, expected: bool) -> None:
    """Among 100 texts the one above the threshold is found, whatever the process's hash key."""
    rng = random.Random(kept)
    base = words(rng, 100)
    other = base[:kept] + words(rng, 100 - kept)
    others = [made(" ".join(words(rng, 100))) for _ in range(99)]
    others.insert(rng.randrange(99), made(" ".join(other)))
    assert resembles(made(" ".join(base)), others, 0.92) is expected


def test_differing_bits() -> None:
    """A quarter turn is half of the bits, no turn is none."""
    assert (differing_bits(1.0), differing_bits(0.0)) == (0, BITS // 2)
