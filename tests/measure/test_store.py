"""The store: sums, buckets, caps, zeros, snapshots."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel import catalogue as c
from lz_otel._measure.store import HistogramValue, Store, other

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMON = ("chat", "anthropic", "m", "", "")


def store(max_series: int = 2000) -> Store:
    """A store of the newest conventions."""
    return Store(c.selected("latest"), max_series)


def points(made: Store, metric: c.Metric) -> dict[tuple[str, ...], object]:
    """The points of one metric."""
    return next((dict(s.points) for s in made.snapshot() if s.metric is metric), {})


def test_kinds_do_what_their_name_says() -> None:
    """A counter adds, an up-down counter adds and subtracts, a gauge sets."""
    made = store()
    made.add([(c.ATTEMPTS, (*COMMON, "200"), 1.0), (c.ATTEMPTS, (*COMMON, "200"), 2.0)])
    made.add([(c.CALL_ACTIVE, COMMON, 1.0), (c.CALL_ACTIVE, COMMON, -1.0)])
    limit = ("chat", "anthropic", "m", "tokens")
    made.add([(c.RATE_LIMIT_LIMIT, limit, 5.0), (c.RATE_LIMIT_LIMIT, limit, 3.0)])
    assert points(made, c.ATTEMPTS) == {(*COMMON, "200"): 3.0}
    assert points(made, c.CALL_ACTIVE) == {COMMON: 0.0}
    assert points(made, c.RATE_LIMIT_LIMIT) == {limit: 3.0}


@given(st.lists(st.floats(0, 1000), max_size=50))
def test_buckets_hold_every_observation_once(values: list[float]) -> None:
    """Each observation is in the first bucket whose bound is not below it (``le``), as Prometheus has it."""
    made = store()
    for value in values:
        made.add([(c.OPERATION_DURATION, ("r", "g", "fast"), value)])
    found = made.value(c.OPERATION_DURATION)
    below = [sum(v <= bound for v in values) for bound in c.DURATION_BUCKETS]
    assert [sum(found.counts[: i + 1]) for i in range(len(below))] == below
    assert found.count == len(values) == sum(found.counts)


def test_prepared_counts_are_merged() -> None:
    """Counts that were gathered elsewhere are added bucket by bucket."""
    made = store()
    counts = [0] * (len(c.CHUNK_BUCKETS) + 1)
    counts[2] = 4
    for _ in range(2):
        made.add([(c.TIME_PER_OUTPUT_CHUNK, (*COMMON, "full"), (counts, 0.5, 4))])
    found = made.value(c.TIME_PER_OUTPUT_CHUNK)
    assert isinstance(found, HistogramValue)
    assert (found.counts[2], found.sum, found.count) == (8, 1.0, 8)


def test_label_sets_are_capped_and_nothing_is_lost() -> None:
    """Over the cap everything new goes to one set of ``other``; the sum stays right, and it is counted."""
    made = store(100)
    for number in range(1000):
        made.add([(c.ATTEMPTS, ("chat", "p", f"model-{number}", "", "", "200"), 1.0)])
    found = points(made, c.ATTEMPTS)
    assert sum(found.values()) == 1000  # type: ignore[arg-type]
    assert len(found) <= 100
    assert found["chat", "other", "other", "other", "other", "200"] == 1000 - 95
    assert points(made, c.INTERNAL_OVERFLOW) == {("lz.attempts",): 1000 - 95}


def test_zeros_never_crowd_out_real_series() -> None:
    """Counters that start at 0 take at most half of the room."""
    made = store(100)
    sets = [("chat", "p", f"m{i}", "", "", "200") for i in range(80)]
    assert len(made.touch(c.ATTEMPTS, sets)) == 50
    assert set(points(made, c.ATTEMPTS).values()) == {0.0}
    assert made.touch(c.ATTEMPTS, sets[:10]) == []


def test_metrics_out_of_force_are_dropped() -> None:
    """A measurement of another convention leaves nothing."""
    made = store()
    made.add([(c.LEGACY_TOKEN_USAGE, (*COMMON, "", "anthropic", "input"), 5.0)])
    assert [s.metric.name for s in made.snapshot()] == []


def test_threads_lose_nothing() -> None:
    """Concurrent batches add up."""
    made = store()

    def work() -> None:
        for _ in range(2000):
            made.add([(c.ATTEMPTS, (*COMMON, "200"), 1.0), (c.OPERATION_DURATION, ("", "", "full"), 0.5)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made.value(c.ATTEMPTS) == 16_000
    assert made.value(c.OPERATION_DURATION).count == 16_000


def test_snapshot_is_a_copy() -> None:
    """What was handed out does not change any more."""
    made = store()
    made.add([(c.OPERATION_DURATION, ("", "", "full"), 0.5)])
    before = made.snapshot()
    made.add([(c.OPERATION_DURATION, ("", "", "full"), 0.5)])
    assert before[0].points[0][1].count == 1


def test_clear_starts_from_zero() -> None:
    """After a fork nothing of the parent's is left, and the lock is new."""
    made = store()
    made.add([(c.ATTEMPTS, (*COMMON, "200"), 1.0)])
    made._lock.acquire()
    made.clear()
    assert made.snapshot() == []


def test_a_handler_in_the_middle_of_adding_loses_nothing() -> None:
    """What a signal's handler measures in the middle of `add` is added afterwards, listeners included."""
    made = store()
    row = (c.ATTEMPTS, (*COMMON, "200"), 1.0)
    heard: list[int] = []

    class Handler(tuple[Any, ...]):
        """A row whose reading is interrupted."""

        __slots__ = ()

        def __iter__(self) -> Iterator[Any]:
            made.add([row, row])
            made.touch(c.ATTEMPTS, [(*COMMON, "500")])
            assert points(made, c.ATTEMPTS) in (
                {},
                {(*COMMON, "200"): 1.0},
            )  # a scrape within the handler ends, too
            return super().__iter__()

    made.listeners.append(lambda rows: heard.append(len(rows)))
    made.add([row, Handler(row), row])
    assert points(made, c.ATTEMPTS) == {(*COMMON, "200"): 5.0, (*COMMON, "500"): 0.0}
    assert sorted(heard) == [1, 2, 3]


def test_a_handler_that_raises_in_the_middle_of_adding_loses_one_row_at_most() -> None:
    """The rest of a batch is added before the exception goes on."""
    made = store()
    row = (c.ATTEMPTS, (*COMMON, "200"), 1.0)

    class Raising(tuple[Any, ...]):
        """A row whose reading ends the process."""

        __slots__ = ()

        def __iter__(self) -> Iterator[Any]:
            raise SystemExit(0)

    with pytest.raises(SystemExit):
        made.add([row, Raising(row), row, row])
    assert points(made, c.ATTEMPTS) == {(*COMMON, "200"): 3.0}
    made.add([row])
    assert points(made, c.ATTEMPTS) == {(*COMMON, "200"): 4.0}


def test_what_is_put_over_the_cap_is_added_up() -> None:
    """Calls in flight of models over the cap are in ``other``; ten scrapes overflow no more than one."""
    made = store(max_series=4)
    values = {("chat", "anthropic", f"m{n}", "", ""): 2.0 for n in range(10)}
    for _ in range(10):
        made.put(c.CALL_ACTIVE, values)
        found = points(made, c.CALL_ACTIVE)
        assert 20.0 == sum(found.values())  # type: ignore[call-overload]  # floats all
        assert {(c.CALL_ACTIVE.name,): 1.0} == points(made, c.INTERNAL_OVERFLOW)
    assert 12.0 <= found["chat", "other", "other", "other", "other"]  # type: ignore[operator]
    made.put(c.CALL_ACTIVE, dict.fromkeys(values, 0.0))
    assert {0.0} == set(points(made, c.CALL_ACTIVE).values())


def test_what_was_noted_comes_in_whatever_its_number() -> None:
    """Thousands of batches noted within one `add` are added; beyond the room for them faults are counted."""
    made = store()
    row = (c.ATTEMPTS, (*COMMON, "200"), 1.0)
    me = threading.get_ident()
    made._inside.add(me)
    for _ in range(20_005):
        made.add([row])
    made._inside.discard(me)
    made.add([row])
    assert points(made, c.ATTEMPTS) == {(*COMMON, "200"): 20_001.0}
    assert points(made, c.INTERNAL_ERRORS) == {("measure",): 5.0}


def test_a_child_of_a_fork_does_not_add_what_its_parent_noted() -> None:
    """Clearing forgets what was only noted."""
    made = store()
    made._inside.add(threading.get_ident())
    made.add([(c.ATTEMPTS, (*COMMON, "200"), 1.0)])
    made.clear()
    assert points(made, c.ATTEMPTS) == {}


def test_an_interrupted_row_is_counted_once() -> None:
    """The row at which a signal's handler raised is tried again; only one that fails twice is left out."""
    made = store()
    row = (c.ATTEMPTS, (*COMMON, "200"), 1.0)

    class Once(tuple[Any, ...]):
        """A row whose first reading is interrupted."""

        __slots__ = ()
        met: ClassVar[list[bool]] = []

        def __iter__(self) -> Iterator[Any]:
            if not self.met:
                self.met.append(True)
                raise SystemExit(0)
            return super().__iter__()

    with pytest.raises(SystemExit):
        made.add([row, Once(row), row])
    assert points(made, c.ATTEMPTS) == {(*COMMON, "200"): 3.0}


def test_what_is_measured_while_somebody_reads_comes_afterwards() -> None:
    """A signal's handler in the middle of a copy neither breaks it nor is lost."""
    made = store()
    row = (c.ATTEMPTS, (*COMMON, "200"), 1.0)

    class Handler(dict[Any, Any]):
        """Points whose copying is interrupted."""

        def items(self) -> Any:
            made.add([row])
            return super().items()

    made.add([row])
    made._data[c.ATTEMPTS] = Handler(made._data[c.ATTEMPTS])
    assert points(made, c.ATTEMPTS) == {(*COMMON, "200"): 1.0}
    assert 1 == len(made._noted)


def test_other_is_what_the_store_chooses() -> None:
    """The set for what is over the cap: closed lists keep their values, the rest is ``other``."""
    store = Store([c.ATTEMPTS, c.INTERNAL_OVERFLOW], max_series=1)
    store.add([(c.ATTEMPTS, (*COMMON, "200"), 1), (c.ATTEMPTS, ("chat", "x", "y", "z", "", "429"), 1)])
    points = dict(store.snapshot()[0].points)
    assert {(*COMMON, "200"), other(c.ATTEMPTS, ("chat", "x", "y", "z", "", "429"))} == set(points)


def test_what_was_noted_is_added_with_the_next_batch() -> None:
    """No scrape is needed for it."""
    made = store()
    row = (c.ATTEMPTS, (*COMMON, "200"), 1.0)
    made._noted.append([row])
    made.add([row])
    assert made.value(c.ATTEMPTS) == 2.0


def test_the_overflow_of_the_overflow_is_not_counted() -> None:
    """The metric that counts what is over the cap names every other metric, and not itself."""
    made = store(max_series=4)
    made.add([(c.INTERNAL_OVERFLOW, (f"m{number}",), 1.0) for number in range(10)])
    assert (c.INTERNAL_OVERFLOW.name,) not in points(made, c.INTERNAL_OVERFLOW)


def test_new_zeros_are_passed_on_once() -> None:
    """Listeners get the metric with the sets that are new, and nothing where none is."""
    made = store()
    heard: list[tuple[c.Metric, list[tuple[str, ...]]]] = []
    made.touch_listeners.append(lambda metric, sets: heard.append((metric, sets)))
    made.touch(c.ATTEMPTS, [(*COMMON, "200")])
    made.touch(c.ATTEMPTS, [(*COMMON, "200")])
    made.touch(c.ATTEMPTS, [(*COMMON, "200"), (*COMMON, "500")])
    assert heard == [(c.ATTEMPTS, [(*COMMON, "200")]), (c.ATTEMPTS, [(*COMMON, "500")])]


def test_a_scrape_by_a_handler_does_not_open_the_store() -> None:
    """After a signal's handler has read in the middle of `add`, what it measures is still only noted."""
    made = store()
    row = (c.ATTEMPTS, (*COMMON, "200"), 1.0)
    noted: list[int] = []

    class Handler(tuple[Any, ...]):
        """A row whose reading is interrupted."""

        __slots__ = ()

        def __iter__(self) -> Iterator[Any]:
            made.snapshot()
            made.add([row])
            noted.append(len(made._noted))
            return super().__iter__()

    made.add([Handler(row)])
    assert noted == [1]
    assert points(made, c.ATTEMPTS) == {(*COMMON, "200"): 2.0}


def test_clear_begins_anew() -> None:
    """The start is the child's, its thread is in the middle of nothing, and no lost batch is its own."""
    made = store()
    made.started_ns = 0
    made._unnoted = 5
    made._inside.add(threading.get_ident())
    made.clear()
    made.add([(c.ATTEMPTS, (*COMMON, "200"), 1.0)])
    assert points(made, c.ATTEMPTS) == {(*COMMON, "200"): 1.0}
    assert points(made, c.INTERNAL_ERRORS) == {}
    assert made.started_ns > 0


def test_a_value_is_the_sum_of_the_points_that_match() -> None:
    """Labels by their Prometheus names choose points; without any all are added up."""
    made = store()
    for status, number in (("200", 3.0), ("500", 1.0)):
        made.add([(c.ATTEMPTS, (*COMMON, status), number)])
        made.add([(c.OPERATION_DURATION, (status, "", "full"), number)])
    assert (made.value(c.ATTEMPTS), made.value(c.ATTEMPTS, status="500")) == (4.0, 1.0)
    assert made.value(c.ATTEMPTS, status="200", gen_ai_request_model="other") == 0.0
    found = made.value(c.OPERATION_DURATION, lz_route="200")
    assert (found.sum, found.count, sum(found.counts)) == (3.0, 1, 1)


def test_a_point_that_has_ended_is_gone() -> None:
    """Points of gauges are dropped, once, and listeners hear of it as NaN."""
    made = Store(c.ALL)
    heard: list[object] = []
    labels = ("chat", "openai", "m", "", "tokens")
    made.add([(c.RATE_LIMIT_LIMIT, labels, 5.0)])
    made.listeners.append(heard.extend)
    for _ in range(2):
        made.drop([(c.RATE_LIMIT_LIMIT, labels), (c.RATE_LIMIT_RESET, labels)])
    assert points(made, c.RATE_LIMIT_LIMIT) == {}
    assert str(heard) == str([(c.RATE_LIMIT_LIMIT, labels, float("nan"))])
