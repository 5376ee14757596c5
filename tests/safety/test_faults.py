"""Every function of every stage fails in turn:
the host sees the same, and what failed is counted and told once.

Which functions there are, nobody writes down: a first run with a profiler finds them.
"""

from __future__ import annotations

import contextvars
import gc
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

import lz_otel
from lz_otel import _runtime, catalogue
from lz_otel._ground.guard import guard
from lz_otel.testing import Capture
from tests.safety import traffic
from tests.safety.finder import Target, broken, forget_results, targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# What stands at the boundary itself. It holds no decision and calls everything else under a ``try``; there is
# nothing around it that could catch its own fault.
DOORS = {
    "_capture/attempt.py:shells": "the shells that the host iterates",
    "_capture/attempt.py:_Shell": "the same",
    "_capture/attempt.py:_dropped": "their finalizer",
    "_capture/attempt.py:take_notes": "the ``try`` around all notes",
    "_capture/hook.py:_around": "stands in the place of the host's code",
    "_capture/hook.py:_with_a_cell.<locals>": "the same for a method with a cell",
    "_capture/hook.py:_Reference.__call__": "called by that; it looks at two weak references",
    "_capture/transports.py:begin_attempt": "the ``try`` around the beginning",
    "_capture/transports.py:_client_of": "called as a client is made; it returns its argument",
    "_capture/transports.py:_look_at": "the same; what it calls is a ``try``",
    "_capture/transports.py:_send": "stands in the place of the host's code, and the ``try`` around it",
    "_capture/transports.py:_sent": "the same at its end",
    "_capture/attempt.py:attach": "the ``try`` around the head",
    "_capture/transports.py:_enter": "the same for a transport of the host's own",
    "_capture/transports.py:_leave": "the same at its end",
    "_capture/sdk.py:_begin": "the ``try`` around an SDK's call",
    "_capture/sdk.py:leave_call": "the same at its end",
    "_capture/sdk.py:_look_for_span": "the same within",
    "_export/prometheus.py:StoreCollector.collect": "called by the host's page; it is a ``try``",
    "_export/audit.py:AuditLog._run": "the loop of a thread: a ``try``; a thread that ends is begun again",
    "_operation.py:Operation.__init__": "made by the host, before anything can fail",
    "_operation.py:Operation.__enter__": "called by the host; it sets a variable",
    "_operation.py:Operation.__exit__": "called by the host; what it calls is under a ``try``",
    "_operation.py:Operation.reject": "the ``try`` around a rejection",
    "_capture/transports.py:hook_client": "the ``try`` around a client's transports",
}
# Where faults are counted. When this is broken nothing can be counted.
COUNTING = (
    "_measure/store.py:Store.add",
    "_measure/store.py:Store._take",
    "_measure/store.py:Store._apply",
    "_measure/store.py:Store._note",
    "_runtime.py:_Runtime._count_fault",
)
# What fails in a decoder cannot be told from a broken body, and counts as one.
BODIES = ("_extract/encodings.py",)


class Boom:
    """Raises on behalf of a broken function, and counts how often."""

    def __init__(self, fault: type[Exception]) -> None:
        self.fault = fault
        self.count = 0

    def boom(self) -> Exception:
        self.count += 1
        return self.fault("ours")


@contextmanager
def everything_on(tmp_path: Path) -> Iterator[Capture]:
    """Observe with all mechanisms, spans, call log,
    audit log and a page of metrics in the host's registry.
    """
    from prometheus_client import CollectorRegistry

    from lz_otel._export.prometheus import PrometheusExporter

    mechanisms = ("response_cache", "prompt_cache", "symbolic", "scheduling", "pruning", "zeroing")
    _runtime.uninstrument()
    lz_otel.instrument(
        exporters="none",
        tracer_provider=TracerProvider(),
        mechanisms=mechanisms,
        conventions="both",
        call_log=True,
        audit_log=str(tmp_path / "audit.log"),
        overhead_sample=1.0,
    )
    runtime = _runtime.current()
    assert runtime is not None
    traffic.registry = CollectorRegistry()
    exporter = PrometheusExporter(runtime.store, "127.0.0.1", 0, traffic.registry)
    exporter._register()  # without a port
    guard.reset()
    try:
        yield Capture(runtime.store)
    finally:
        exporter.stop()
        _runtime.uninstrument()


@contextmanager
def still() -> Iterator[None]:
    """What there is now is no garbage: full collections are quick."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


STAGES = (
    "_capture/",
    "_extract/",
    "_judge/",
    "_measure/",
    "_export/",
    "_intake.",
    "_backlog.",
    "_later.",
    "_reports.",
)


def stages(found: list[Target]) -> list[Target]:
    """The functions of the stages, doors left out."""
    return [t for t in found if t.name.startswith(STAGES) and not t.name.startswith(tuple(DOORS))]


def complaints(
    target: Target, fault: type[Exception], tmp_path: Path, bare: list[Any], log: Any
) -> Iterator[str]:
    """Everything that is not as it should be when one function is broken."""
    booms = Boom(fault)
    with everything_on(tmp_path) as seen:
        log.clear()
        forget_results()
        with broken(target, booms.boom):
            got = contextvars.Context().run(traffic.host_sees)
        if not booms.count:
            yield "was not reached"
        yield from (
            f"the host saw {g!r:.300} and not {b!r:.300}" for b, g in zip(bare, got, strict=True) if b != g
        )
        contextvars.Context().run(traffic.a_few)  # what is left over is worked off
        gc.collect()
        points = seen.points("lz.call.active")
        if points:
            yield f"still active: {points}"
        spoilt = target.name.startswith(BODIES) and seen.value("lz.malformed", signal="encoding")
        if target.name not in COUNTING and not spoilt and not seen.value("lz.internal.errors"):
            yield "no fault was counted"
        lines = [r for r in log.records if r.name == "lz_otel"]
        kinds = [(r.msg, r.args[:2] if isinstance(r.args, tuple) else None) for r in lines]
        if not lines and not spoilt:
            yield "no line in the log"
        if len(kinds) != len(set(kinds)) or len(kinds) > len(catalogue.INTERNAL_ERRORS.attributes[0].values):
            yield f"told more than once: {[r.getMessage() for r in lines]}"
        if any(r.exc_info for r in lines):
            yield "a traceback in the log"


@pytest.fixture
def bare() -> list[Any]:
    """What the host sees without us."""
    _runtime.uninstrument()
    return traffic.host_sees()


@pytest.mark.timeout(600)
def test_each_function_fails_in_turn(
    tmp_path: Path, bare: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Same bytes, same exceptions, a count and one line per kind, nothing active at the end:
    for every function.
    """
    caplog.set_level(logging.WARNING)
    with everything_on(tmp_path):
        found = targets(traffic.host_sees)
        assert traffic.host_sees() == bare
    chosen = stages(found)
    assert len(chosen) > 250, "the first run found too few functions"
    assert {t.name.partition("/")[0] for t in chosen} >= {
        "_capture",
        "_extract",
        "_judge",
        "_measure",
        "_export",
    }
    wrong: list[str] = []
    with still():
        for number, target in enumerate(chosen):
            fault = MemoryError if number % 10 == 9 else RuntimeError
            wrong += [f"{target.name}: {c}" for c in complaints(target, fault, tmp_path, bare, caplog)]
    assert wrong == []


def test_doors_are_met(tmp_path: Path) -> None:
    """Each door of the list is met by the calls, so that no entry outlives what it names."""
    with everything_on(tmp_path):
        names = [t.name for t in targets(traffic.host_sees)]
    missing = [d for d in DOORS if not any(n.startswith(d) for n in names)]
    assert missing == []


def test_the_search_sees_a_fault(tmp_path: Path) -> None:
    """A door that fails shows: the host sees it."""
    _runtime.uninstrument()
    before = traffic.host_sees()
    with everything_on(tmp_path):
        door = next(t for t in targets(traffic.host_sees) if t.name == "_capture/transports.py:begin_attempt")
        with broken(door, Boom(RuntimeError).boom):
            after: Callable[[], Any] = traffic.host_sees
            assert after() != before
