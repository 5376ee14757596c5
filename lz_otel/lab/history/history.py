"""Hours of made-up series with staged incidents: to look at dashboards, to try rules, to measure growth.

What one sees is made, not measured. Names, labels and closed lists come from the catalogue, so the series are
those that the library would expose. The same plan gives the same series.

    lz-otel simulate --history --hours 6 --incident layer-down --out history.om
    promtool tsdb create-blocks-from openmetrics history.om data/

    lz-otel simulate --history --hours 6 --push http://localhost:9090
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import sys
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple

from lz_otel import catalogue as c
from lz_otel import mechanisms
from lz_otel._measure.rules import zeros
from lz_otel.bundle.promql import VENDOR_CACHE_HIT_RATE, VENDOR_DECOMPRESSION_P95, VENDOR_SLICE_EFFICIENCY
from lz_otel.errors import ConfigurationError
from lz_otel.lab.history import _remote_write
from lz_otel.lab.history._calls import Flow, MadeRoute, embeddings, rows
from lz_otel.lab.history._figures import MODELS, model
from lz_otel.lab.history._incidents import INCIDENTS as INCIDENTS
from lz_otel.lab.history._incidents import State, incident
from lz_otel.lab.history._series import Process, Row, Sampled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

VERSIONS = ("0.1.0", "0.2.0")  # of the made-up process, before and after a restart


class Incident(NamedTuple):
    """An incident: its name, and when it begins and how long it lasts, in seconds from the plan's start."""

    name: str
    begin: float
    length: float


@dataclass(frozen=True)
class Plan:
    """What to generate.

    Attributes:
        hours: length of the history.
        step: seconds between two samples.
        end: epoch seconds of the last sample; it is rounded down to a whole step.
        instances: processes per job.
        models: models per route, the known ones first.
        routes: routes (names of operations), the known ones first.
        seed: the same seed gives the same series.
        incidents: when what goes wrong.
        rate: calls per second of one instance.
        jobs: ``families`` (every family on) and ``plain`` (no family) or one of them.
    """

    hours: float = 6.0
    step: int = 30
    end: float = 0.0
    instances: int = 2
    models: int = 2
    routes: int = 4
    seed: int = 1
    incidents: tuple[Incident, ...] = ()
    rate: float = 2.0
    jobs: tuple[str, ...] = ("families", "plain")

    def times(self) -> list[int]:
        """Epoch seconds of the samples."""
        last = int(self.end or time.time()) // self.step * self.step
        count = max(2, int(self.hours * 3600) // self.step + 1)
        return [last - self.step * (count - 1 - i) for i in range(count)]


class History(NamedTuple):
    """Generated series with their sample times in epoch seconds."""

    times: list[int]
    series: list[Sampled]

    @property
    def samples(self) -> int:
        """Number of samples, absent ones included."""
        return sum(len(s.values) for s in self.series)


_PRUNING = {"control": ("zeroing", "prompt_cache"), "pruned": ("zeroing", "pruning", "prompt_cache")}
_ROUTES = (
    MadeRoute("classify-ticket", 0.42, False, (900, 60), {"": ("symbolic", "prompt_cache")}),
    MadeRoute("draft-reply", 0.2, True, (2600, 320), {"": ("intent", "prompt_cache")}),
    MadeRoute("summarize-thread", 0.16, True, (5200, 260), _PRUNING),
    MadeRoute("answer-faq", 0.17, True, (1500, 180), {"": ("scheduling", "response_cache", "prompt_cache")}),
)
_NO_OPERATION = MadeRoute("", 0.05, False, (700, 150), {"": ()})
_PLACED = {name for route in _ROUTES for names in route.groups.values() for name in names}
_UNPLACED = tuple(m for m in mechanisms.NAMES if m not in _PLACED)  # the first route asks for them
_PLAIN = tuple(name for name in mechanisms.of_effect(mechanisms.SHORTENS) if name not in mechanisms.FAMILIES)
_JOBS = {"families": "support-bot", "plain": "plain-chat"}


def _routes(plan: Plan, kind: str) -> Iterator[MadeRoute]:
    for index in range(plan.routes):
        again, place = divmod(index, len(_ROUTES))
        route = _ROUTES[place]
        more = _UNPLACED if place == 0 else ()
        groups = {group: (*names, *more) for group, names in route.groups.items()}
        if kind == "plain":
            groups = {"": _PLAIN}
        yield route._replace(name=f"{route.name}-{again + 1}" if again else route.name, groups=groups)
    yield _NO_OPERATION


def _flows(plan: Plan, kind: str) -> list[Flow]:
    names = [m.name for m in MODELS] + [f"synthetic-model-{i:02d}" for i in range(1, 100)]
    flows = []
    for at, route in enumerate(_routes(plan, kind)):
        models = [names[(at + i) % max(plan.models, len(MODELS))] for i in range(plan.models)]
        for (i, name), group in itertools.product(enumerate(models), route.groups):
            second = models[(i + 1) % len(models)] if len(models) > 1 else ""
            rate = plan.rate * route.share / (i + 1) / len(route.groups)
            flows.append(Flow(route, group, model(name), rate, second))
    return flows


def generate(plan: Plan) -> History:
    """Generate the series of a plan.

    Raises:
        ConfigurationError: an incident or a job is unknown, or a number is out of range.
    """
    for setting in ("hours", "step", "instances", "models", "routes", "rate"):
        if getattr(plan, setting) <= 0:
            raise ConfigurationError(setting, getattr(plan, setting), "a number above 0")
    for kind in plan.jobs:
        if kind not in _JOBS:
            raise ConfigurationError("jobs", kind, f"one of {', '.join(_JOBS)}")
    times = plan.times()
    states = _states(plan, times)
    series: list[Sampled] = []
    for kind in plan.jobs:
        of_kind = states if kind == "families" else [State()] * len(times)
        for index in range(plan.instances):
            target = {"job": _JOBS[kind], "instance": f"{_JOBS[kind]}-{index + 1}:9464"}
            series += _process(plan, kind, index, target, times, of_kind).series()
    if "families" in plan.jobs:
        series += _vendor(states).series()
    return History(times, series)


def _states(plan: Plan, times: list[int]) -> list[State]:
    """Return the state at each time; the same incidents give the same object."""
    changes = [(staged, incident(staged.name)) for staged in plan.incidents]
    made: dict[tuple[int, ...], State] = {}
    states = []
    for at in times:
        on = tuple(i for i, (s, _) in enumerate(changes) if s.begin <= at - times[0] < s.begin + s.length)
        if on not in made:
            made[on] = functools.reduce(lambda state, i: changes[i][1](state), on, State())
        states.append(made[on])
    return states


def _process(
    plan: Plan, kind: str, index: int, target: dict[str, str], times: list[int], states: list[State]
) -> Process:
    """Return one process, from the first sample to the last."""
    process = Process(target)
    flows = _flows(plan, kind)
    for flow in flows:
        for metric, keys in zeros(flow.common, flow.route.groups[flow.group], first=True):
            process.touch(metric, keys)
    embedding = embeddings()
    mixes: dict[tuple[int, int], list[Row]] = {}
    rng = random.Random(f"{plan.seed}/{kind}/{index}")  # reproducible, not secret
    version, restarting = VERSIONS[0], False
    for at, state in zip(times, states, strict=True):
        again = state.restart and not restarting and index == 0
        if again:
            process.restart()
            version = VERSIONS[1]
        restarting = state.restart
        daily = 1 + 0.25 * math.sin(2 * math.pi * at / 86400)
        total = 0.0
        for place, flow in enumerate(flows):
            calls = flow.per_second * plan.step * daily * state.traffic * max(0.2, rng.gauss(1, 0.07))
            mix = mixes.get((place, id(state)))
            if mix is None:
                mix = mixes[place, id(state)] = rows(flow, state)
            process.record(mix, calls)
            total += calls
        process.record(embedding, total * 0.1)
        _internal(process, state, total, version)
        process.sample(up=not again)
    return process


def _internal(process: Process, state: State, calls: float, version: str) -> None:
    """Count what a process counts about itself while calls pass."""
    process.record([(c.INTERNAL_OVERHEAD, (), 0.05, 0.00009)], calls)
    for metric in (c.INTERNAL_ERRORS, c.INTERNAL_LOST):
        process.touch(metric, [(value,) for value in metric.attributes[0].values])
    process.add(c.INTERNAL_ERRORS, calls * state.internal, where="extract")
    process.add(c.INTERNAL_LOST, calls * state.internal, what="fault")
    for known in VERSIONS:
        if known in (version, VERSIONS[0]):
            value = 1.0 if known == version else math.nan
            process.set(c.BUILD_INFO, value, version=known, python_version="3.11.9", httpx_version="0.28.1")


def _vendor(states: list[State]) -> Process:
    """Return the gauges of the vendor's own endpoint (article 004, A)."""
    endpoint = Process({"job": "vendor", "instance": "vendor:443"})
    for state in states:
        endpoint.set(VENDOR_CACHE_HIT_RATE, state.shared, layer="zero")
        endpoint.set(VENDOR_DECOMPRESSION_P95, state.decompression_ms, precision="fp16")
        endpoint.set(VENDOR_SLICE_EFFICIENCY, 0.91 if state.shared > 0.3 else 0.79, block_type="anchor")
        endpoint.sample()
    return endpoint


def staged(names: Sequence[str], hours: float, length: float = 1500.0) -> tuple[Incident, ...]:
    """Spread incidents evenly over the history, each so many seconds long (less when there is no room)."""
    room = hours * 3600 / (len(names) + 1) if names else 0.0
    return tuple(Incident(n, room * (i + 0.5), min(length, room * 0.6)) for i, n in enumerate(names))


def openmetrics(history: History, out: IO[str]) -> None:
    """Write OpenMetrics text with time stamps, for ``promtool tsdb create-blocks-from openmetrics``."""
    for labels, start, values in history.series:
        name = labels[0][1]
        rest = ",".join(f'{k}="{_quoted(v)}"' for k, v in labels[1:])
        for at, value in zip(history.times[start:], values, strict=True):
            if not math.isnan(value):
                out.write(f"{name}{{{rest}}} {value!r} {at}\n")
    out.write("# EOF\n")


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def push(history: History, url: str, copies: int = 1, slice_seconds: int = 1800, batch: int = 2000) -> int:
    """Send a history by remote write, oldest first; returns the number of series.

    Args:
        history: what to send.
        url: base address of a Prometheus that was started with ``--web.enable-remote-write-receiver``.
        copies: send each series so many times, each under another ``instance``: for large runs.
        slice_seconds: send the series in slices of this length, since a server takes only what is
            not much older than its newest sample.
        batch: series per request.

    Raises:
        OSError: the server cannot be reached, or refuses.
    """
    stamps = [at * 1000 for at in history.times]
    per_slice = max(1, slice_seconds // max(1, history.times[1] - history.times[0]))
    for begin in range(0, len(stamps), per_slice):
        end = begin + per_slice
        pending: list[bytes] = []
        for labels, start, values in history.series:
            if start >= end:
                continue
            low = max(begin, start)
            samples = _remote_write.encode_samples(values[low - start : end - start], stamps[low:end])
            for head in _heads(labels, copies):
                pending.append(head + samples)
                if len(pending) >= batch:
                    _remote_write.post(url, pending)
                    pending.clear()
        _remote_write.post(url, pending)
    return len(history.series) * copies


def _heads(labels: tuple[tuple[str, str], ...], copies: int) -> Iterator[bytes]:
    yield _remote_write.encode_labels(labels)
    for copy in range(2, copies + 1):
        changed = ((k, f"copy-{copy}-{v}" if k == "instance" else v) for k, v in labels)
        yield _remote_write.encode_labels(changed)


def incidents(wanted: Sequence[str], hours: float, *, every: bool = False) -> tuple[Incident, ...]:
    """Return the incidents to stage, in a history so many hours long.

    Args:
        wanted: ``NAME`` (spread evenly) or ``NAME@BEGIN+LENGTH`` in seconds.
        hours: length of the history.
        every: stage all of them, spread evenly, beside those with a time.

    Raises:
        ConfigurationError: a time cannot be read.
    """
    untimed = list(INCIDENTS) if every else [text for text in wanted if "@" not in text]
    return staged(untimed, hours) + tuple(_timed(text) for text in wanted if "@" in text)


def _timed(text: str) -> Incident:
    name, _, times = text.partition("@")
    begin, _, length = times.partition("+")
    try:
        return Incident(name, float(begin), float(length))
    except ValueError:
        raise ConfigurationError("--incident", text, "NAME or NAME@BEGIN+LENGTH in seconds") from None


def run(plan: Plan, *, push_to: str = "", out: Path | None = None) -> int:
    """Generate a history and send it to a Prometheus, or write it to a file or standard output.

    Returns:
        Exit status: 0, or 2 when it cannot be written or sent.

    Raises:
        ConfigurationError: an incident is unknown, or a number is out of range.
    """
    history = generate(plan)
    try:
        if push_to:
            push(history, push_to)
        elif out:
            with out.open("w", encoding="utf-8") as file:
                openmetrics(history, file)
        else:
            openmetrics(history, sys.stdout)
    except OSError as error:
        sys.stderr.write(f"lz-otel: {error}\n")
        return 2
    sys.stderr.write(f"{len(history.series)} series, {history.samples} samples\n")
    return 0
