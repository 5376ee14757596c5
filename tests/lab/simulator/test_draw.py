"""Draws are functions of seed, key and name, and as likely as they should be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lz_otel.lab.simulator._draw import Draw


@given(st.integers(), st.text(max_size=20), st.text(max_size=20))
def test_a_draw_is_a_function_of_seed_key_and_name(seed: int, key: str, name: str) -> None:
    """Drawn twice, in any order, it is the same, and within [0, 1)."""
    one, two = Draw(seed, key), Draw(seed, key)
    two.unit("something else")
    assert one.unit(name) == two.unit(name)
    assert 0.0 <= one.unit(name) < 1.0


def test_draws_are_spread_evenly() -> None:
    """A tenth of them falls into each tenth."""
    counts = [0] * 10
    for i in range(5000):
        counts[int(Draw(1, f"c{i}").unit("x") * 10)] += 1
    assert all(400 < c < 600 for c in counts)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=6).filter(lambda w: sum(w) > 0))
def test_weights(weights: list[float]) -> None:
    """A choice is always one that has a weight."""
    index = Draw(0, str(weights)).weighted("w", weights)
    assert weights[index] > 0
