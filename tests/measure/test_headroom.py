"""Which readings of rate limits are shown, and until when."""

from __future__ import annotations

import pytest

from lz_otel import catalogue as c
from lz_otel._extract.limits import Limit
from lz_otel._measure.headroom import HOLDS_SECONDS, MAX_READINGS, Headroom, rows

NAMES = ("chat", "openai", "gpt-5.4", "proj_1")
LABELS = (*NAMES, "tokens")
LOW = Limit("tokens", 500, 10, 60.0)


def test_a_reading_has_a_row_for_each_thing_stated() -> None:
    """Left, limit and reset; a reset in the past is now."""
    assert rows(LABELS, Limit("tokens", 100, 0, -1.5)) == [
        (c.RATE_LIMIT_REMAINING, LABELS, 0.0),
        (c.RATE_LIMIT_LIMIT, LABELS, 100.0),
        (c.RATE_LIMIT_RESET, LABELS, 0.0),
    ]


@pytest.mark.parametrize(
    ("limit", "metric"),
    [
        (Limit("tokens", 1, None, None), c.RATE_LIMIT_LIMIT),
        (Limit("tokens", None, 1, None), c.RATE_LIMIT_REMAINING),
        (Limit("tokens", None, None, 1.0), c.RATE_LIMIT_RESET),
    ],
)
def test_what_a_limit_does_not_say_has_no_row(limit: Limit, metric: c.Metric) -> None:
    """A part that is missing has no gauge."""
    assert rows(LABELS, limit) == [(metric, LABELS, 1.0)]


def test_a_reading_ends_with_its_reset() -> None:
    """09: 10 of 500 left before the night were still shown in the morning, though refilled after a minute."""
    seen = Headroom()
    seen.take(NAMES, 1, [LOW], 1000.0)
    assert seen.shown(1059.9) == (rows(LABELS, LOW), [])
    ended = [(metric, LABELS) for metric, _, _ in rows(LABELS, LOW)]
    shown, gone = seen.shown(1060.0)
    assert ([], sorted(ended, key=str)) == (shown, sorted(gone, key=str))
    assert seen.shown(1061.0) == ([], [])


def test_a_reading_without_a_reset_ends_too() -> None:
    """A limit whose reset is not stated is shown for five minutes."""
    seen = Headroom()
    seen.take(NAMES, 1, [Limit("tokens", 5, 1, None)], 0.0)
    assert [len(seen.shown(when)[0]) for when in (HOLDS_SECONDS - 1, HOLDS_SECONDS)] == [2, 0]


def test_of_two_keys_the_one_with_less_left_is_shown() -> None:
    """The last answer came with the other key, which has plenty: it hid that the first is nearly used up."""
    plenty = Limit("tokens", 1000, 900, 60.0)
    seen = Headroom()
    seen.take(NAMES, 1, [LOW], 0.0)
    seen.take(NAMES, 2, [plenty], 1.0)
    assert seen.shown(2.0)[0] == rows(LABELS, LOW)
    assert seen.shown(60.5)[0] == rows(LABELS, plenty)


def test_a_newer_reading_replaces_the_older_one_of_its_key() -> None:
    """A key's headroom goes up again as soon as the provider says so; what is no longer said ends."""
    more = Limit("tokens", 500, 400, None)
    seen = Headroom()
    seen.take(NAMES, 1, [LOW], 0.0)
    seen.shown(0.5)
    seen.take(NAMES, 1, [more], 1.0)
    assert seen.shown(2.0) == (rows(LABELS, more), [(c.RATE_LIMIT_RESET, LABELS)])


def test_accounts_do_not_mix() -> None:
    """Two accounts have series of their own."""
    other = (*NAMES[:3], "proj_2")
    seen = Headroom()
    seen.take(NAMES, 1, [LOW], 0.0)
    seen.take(other, 1, [LOW], 0.0)
    assert seen.shown(1.0)[0] == [*rows(LABELS, LOW), *rows((*other, "tokens"), LOW)]


def test_memory_is_bounded() -> None:
    """Of more readings than fit the oldest are forgotten; a forked child forgets all."""
    seen = Headroom()
    for key in range(MAX_READINGS + 10):
        seen.take(NAMES, key, [LOW], 0.0)
    assert len(seen.readings) == MAX_READINGS
    seen.clear()
    assert seen.shown(1.0) == ([], [])
