"""Hours of made-up series with staged incidents: to look at dashboards, to try rules, to measure growth.

What one sees is made, not measured. Names, labels and closed lists come from the catalogue, so the series are
those that the library would expose. The same plan gives the same series.

    lz-otel simulate --history --hours 6 --incident layer-down --out history.om
    promtool tsdb create-blocks-from openmetrics history.om data/

    lz-otel simulate --history --hours 6 --push http://localhost:9090
"""

from __future__ import annotations

import itertools
import math
import random
import sys
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple

from lz_otel.errors import ConfigurationError
from lz_otel.lab.history import _remote_write, _traffic
from lz_otel.lab.history._incidents import INCIDENTS, State, incident
from lz_otel.lab.history._series import Process, Sampled
from lz_otel.lab.history._traffic import MODELS, VERSIONS, Flow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = [
    "INCIDENTS",
    "History",
    "Incident",
    "Plan",
    "generate",
    "incidents",
    "openmetrics",
    "push",
    "run",
    "staged",
]


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


# job, route, mechanisms, group, streamed, (input tokens, output tokens), share of the traffic
_ROUTES = (
    ("classify-ticket", ("symbolic", "prompt_cache"), ("",), False, (900, 60), 0.42),
    ("draft-reply", ("intent", "prompt_cache"), ("",), True, (2600, 320), 0.2),
    (
        "summarize-thread",
        ("zeroing", "pruning", "prompt_cache"),
        ("control", "pruned"),
        True,
        (5200, 260),
        0.16,
    ),
    ("answer-faq", ("scheduling", "response_cache", "prompt_cache"), ("",), True, (1500, 180), 0.17),
    ("", (), ("",), False, (700, 150), 0.05),
)
_JOBS = {"families": "support-bot", "plain": "plain-chat"}


def _flows(plan: Plan, kind: str) -> list[Flow]:
    names = [m.name for m in MODELS] + [f"synthetic-model-{i:02d}" for i in range(1, 100)]
    named = [r for r in _ROUTES if r[0]]
    rows = [
        (*named[i % len(named)][:1], *named[i % len(named)][1:])
        if i < len(named)
        else (f"{named[i % len(named)][0]}-{i // len(named) + 1}", *named[i % len(named)][1:])
        for i in range(plan.routes)
    ]
    flows = []
    for at, (route, mechanisms, groups, stream, tokens, share) in enumerate((*rows, _ROUTES[-1])):
        if kind == "plain":
            mechanisms, groups = tuple(m for m in mechanisms if m == "prompt_cache"), ("",)
        own = [names[(at + i) % max(plan.models, len(MODELS))] for i in range(plan.models)]
        for (i, name), group in itertools.product(enumerate(own), groups):
            flows.append(
                Flow(
                    route,
                    _traffic.model(name),
                    plan.rate * share / (i + 1) / len(groups),
                    mechanisms,
                    group,
                    stream,
                    tokens,
                    own[(i + 1) % len(own)] if len(own) > 1 else "",
                )
            )
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
    changes = [(one, incident(one.name)) for one in plan.incidents]
    times = plan.times()
    states = []
    for at in times:
        state = State()
        for one, change in changes:
            if one.begin <= at - times[0] < one.begin + one.length:
                state = change(state)
        states.append(state)
    series: list[Sampled] = []
    for kind in plan.jobs:
        for index in range(plan.instances):
            target = {"job": _JOBS[kind], "instance": f"{_JOBS[kind]}-{index + 1}:9464"}
            seen = states if kind == "families" else [State()] * len(times)
            series += _run(plan, kind, index, target, times, seen).series()
    if "families" in plan.jobs:
        endpoint = Process({"job": "vendor", "instance": "vendor:443"})
        for state in states:
            _traffic.vendor(endpoint, state)
            endpoint.sample()
        series += endpoint.series()
    return History(times, series)


def _run(
    plan: Plan, kind: str, index: int, target: dict[str, str], times: list[int], states: list[State]
) -> Process:
    """One process from the first sample to the last."""
    process = Process(target)
    flows = _flows(plan, kind)
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
        for flow in flows:
            n = flow.per_second * plan.step * daily * state.traffic * max(0.2, rng.gauss(1, 0.07))
            _traffic.call(process, flow, state, n)
            total += n
        _traffic.embeddings(process, {"lz_route": "", "lz_group": ""}, total * 0.1)
        _traffic.idle(process, state, total, version)
        process.sample(up=not again)
    return process


def staged(names: Sequence[str], hours: float, length: float = 1500.0) -> tuple[Incident, ...]:
    """Spread incidents evenly over the history, each so many seconds long (less when there is no room)."""
    room = hours * 3600 / (len(names) + 1) if names else 0.0
    return tuple(Incident(n, room * (i + 0.5), min(length, room * 0.6)) for i, n in enumerate(names))


def openmetrics(history: History, out: IO[str]) -> None:
    """Write OpenMetrics text with time stamps, as ``promtool tsdb create-blocks-from openmetrics`` reads it."""
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
