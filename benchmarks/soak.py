"""`make soak`: mixed traffic at full speed with faults, for minutes; then every invariant is checked.

    python -m benchmarks.soak [--seconds 600] [--threads 4] [--tasks 16] [--seed 0]

The truth is kept twice, by the maker of the calls and by the simulator that answered them; neither
looks at lz_otel. Exits with 1 when an invariant does not hold.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import soak_workers
from benchmarks.arguments import whole, without_proxies
from benchmarks.soak_traffic import FAMILIES, FAULTS, PATIENCE, Ledger, run_for, still_running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.soak_truth import Row

MEMORY_MB, FILES, THREADS = 5.0, 4, 2  # how much each may differ between the middle and the end
LEAST = 5.0  # seconds: in less there is no middle and no end whose memory could be compared
# Before the measured time: imports, connections, first series, what is remembered of prompts. Rounds of so
# many seconds until there are so many calls: on a busy machine one round is too short for memory to be flat.
WARM_UP, WARM_CALLS, WARM_ROUNDS = 5.0, 1500, 24
MEASURED = "calls in the measured time"


class Sample(NamedTuple):
    """What the process held at one moment."""

    memory: float
    files: int
    threads: int


def sample() -> Sample:
    """Resident megabytes, open files, threads."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return Sample(
        pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        sum(1 for _ in Path("/proc/self/fd").iterdir()),
        threading.active_count(),
    )


class Watch:
    """Looks at the process all the time, and asks every second for /metrics, as Prometheus would less often.

    Args:
        address: of /metrics; ``None``: not asked for.
        seconds: for how long: while all callers are at work, and not while they end.
    """

    def __init__(self, address: str | None, seconds: float) -> None:
        self.samples: list[Sample] = []
        self._address, self._every = (
            address,
            min(1.0, seconds / 100),
        )  # twenty samples in a fifth of the shortest run
        self._until = time.monotonic() + seconds
        self.thread = threading.Thread(target=self._run, daemon=True, name="watch")

    def _run(self) -> None:
        due = 0.0
        while (now := time.monotonic()) < self._until:
            if self._address and now >= due:
                due = now + 1.0
                _scrape(self._address)
            self.samples.append(sample())
            time.sleep(self._every)


def _scrape(address: str) -> None:
    import urllib.request

    with urllib.request.urlopen(address, timeout=30) as answer:
        body = answer.read()  # not parsed: that would take more memory than all the rest
    if b"lz_build_info{" not in body or not body.endswith(b"\n"):
        raise RuntimeError(f"a scrape of {len(body)} bytes that is not whole")


def flatness(samples: Sequence[Sample]) -> list[Row]:
    """What the process holds in the last fifth of the run, against the fifth in its middle.

    The least of each counts: a scrape takes some megabytes for a moment, and what leaks is never given back.
    """
    fifth = len(samples) // 5
    if not fifth:
        return [("samples of memory", "≥ 5", len(samples), False)]
    rows: list[Row] = []
    middle, end = samples[2 * fifth : 3 * fifth], samples[-fifth:]
    for name, allowed in (("memory", MEMORY_MB), ("files", FILES), ("threads", THREADS)):
        grown = min(getattr(s, name) for s in end) - min(getattr(s, name) for s in middle)
        rows.append((f"{name}: grown since the middle", f"≤ {allowed:g}", round(grown, 2), grown <= allowed))
    return rows


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (LEAST <= value < math.inf):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: a number of seconds, {LEAST:g} or more")
    return value


def parser() -> argparse.ArgumentParser:
    """The arguments, checked."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description="Minutes of traffic and faults."
    )
    made.add_argument(
        "--seconds",
        type=_seconds,
        default=600.0,
        help=f"measured time, {LEAST:g} or more, after a warm-up of {WARM_CALLS} calls",
    )
    made.add_argument("--threads", type=whole(1), default=4, help="threads of the synchronous SDK")
    made.add_argument("--tasks", type=whole(1), default=16, help="tasks of the asynchronous SDK")
    made.add_argument("--seed", type=whole(0), default=0)
    made.add_argument("--bare", action="store_true", help="without lz_otel: what of the memory is not ours")
    return made


def soak(options: argparse.Namespace, ledger: Ledger) -> tuple[list[Row], list[Sample]]:
    """Make the calls, and compare."""
    from prometheus_client import REGISTRY

    import lz_otel
    from benchmarks import soak_truth as compared
    from lz_otel import catalogue as c
    from lz_otel.lab.simulator import load, running

    scenario = load("healthy").changed(faults=FAULTS, **FAMILIES)
    callers = (options.threads, options.tasks)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="lz-soak-") as folder:
        log = Path(folder, "truth")
        with running(
            scenario, process=True, latency_scale=0.0, seed=options.seed, truth_path=log
        ) as simulator:
            address = None
            if not options.bare:
                # All mechanisms from the start: one that begins by itself says nothing of earlier calls
                status = lz_otel.instrument(
                    exporters="prometheus",
                    prometheus_host="127.0.0.1",
                    prometheus_port=0,
                    mechanisms=c.MECHANISMS,
                )
                address = f"http://127.0.0.1:{status.prometheus_port}/metrics"
            alive: list[str] = []
            for turn in range(1, WARM_ROUNDS + 1):
                alive += run_for(WARM_UP, simulator.url, ledger, options.seed + 1000 * turn, *callers)
                if alive or calls(ledger) >= WARM_CALLS:
                    break
            warm = calls(ledger)
            gc.collect()
            workers = None if options.bare else soak_workers.start(options.seconds)
            watch = Watch(address, options.seconds)
            watch.thread.start()
            alive += run_for(options.seconds, simulator.url, ledger, options.seed, *callers)
            alive += still_running([watch.thread], PATIENCE)
            gc.collect()
            if workers is not None:
                rows += soak_workers.result(workers)
            summary = simulator.summary()
            seen = {} if options.bare else compared.found(REGISTRY.collect())
            lz_otel.uninstrument()
        if not options.bare:
            with log.open("rb") as lines:
                rows += compared.against_truth(lines, ledger, scenario.traffic, seen)
            rows += [*compared.callers(ledger, seen), *compared.whole(summary, seen)]
    measured = calls(ledger) - warm
    rows.append((MEASURED, "> 0", measured, measured > 0))
    rows.append(("callers and threads that do not end", "none", ", ".join(alive) or "none", not alive))
    return rows + flatness(watch.samples), watch.samples


def calls(ledger: Ledger) -> int:
    """Calls made so far."""
    return sum(n for (_, key), n in ledger.counts.items() if key == "calls")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, compare, print."""
    options = parser().parse_args(arguments)
    without_proxies(os.environ)
    faults: list[str] = []
    threading.excepthook = lambda args: faults.append(f"{args.exc_type.__name__}: {args.exc_value}")
    ledger = Ledger()
    rows, samples = soak(options, ledger)

    width = max(len(what) for what, *_ in rows)
    for what, expected, found, holds in sorted(rows, key=lambda row: not row[3]):  # what is broken comes last
        print(
            f"{what:{width}}  expected {expected!s:>14}  found {found!s:>14}  "
            f"{'holds' if holds else 'DOES NOT HOLD'}"
        )
    for fault in faults:
        print(f"a caller died: {fault}")
    broken = sum(not holds for *_, holds in rows) + len(faults)
    print(
        "memory, MB, over the run: "
        + " ".join(f"{s.memory:.0f}" for s in samples[:: max(1, len(samples) // 20)])
    )
    measured = next(found for what, _, found, _ in rows if what == MEASURED)
    print(
        f"{measured} calls in {options.seconds:g} s ({calls(ledger) - measured} before), "
        f"{len(rows)} invariants, {broken} broken"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
