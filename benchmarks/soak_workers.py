"""The worker processes of the soak: files removed, a folder that takes no bytes, workers killed after a call.

    python -m benchmarks.soak_workers SECONDS

A process of its own forks workers that call a simulator of their own and share a folder. Each worker counts
its calls in memory shared with the one that forked it, and kills itself right after one: what the merged page
must show is known to the call. Prints the rows for `benchmarks.soak` as JSON.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.soak_truth import Row

PLACES = 4  # workers that live at a time
BURST = 10  # calls of a worker between two looks at the page
PATIENCE = 10.0  # seconds for the page to show what was called
TALES = ("have vanished", "cannot be written")  # of each, one for each process and outage
KINDS = 5  # files of a process at most: counters, histograms, gauges by their modes
SUMS = ("gen_ai_client_inference_duration_seconds_count", "lz_attempts_total")


class Worker:
    """A forked child that makes as many calls as it is told to, and tells when it has made them."""

    def __init__(self, url: str) -> None:
        self._shared = mmap.mmap(-1, 24)
        self._ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            try:
                self._work(url, theirs)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        theirs.close()

    def _work(self, url: str, told: socket.socket) -> None:
        import httpx2

        numbers = memoryview(self._shared).cast("Q")
        logging.getLogger("lz_otel").handlers = [Tales(numbers)]
        client = httpx2.Client(trust_env=False, headers={"x-api-key": "soak"})
        while (order := told.recv(1)) != b"q":
            for _ in range(BURST):
                body = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": MESSAGES}
                with suppress(httpx2.HTTPError):  # some answers are cut off: those count as well
                    client.post(f"{url}/v1/messages", json=body)
                numbers[0] += 1
            if order == b"k":
                os.kill(os.getpid(), signal.SIGKILL)
            told.sendall(b".")

    def numbers(self) -> tuple[int, ...]:
        """Calls made, and how often each of `TALES` was told."""
        return tuple(memoryview(self._shared).cast("Q"))

    def begin(self, *, then_die: bool = False) -> None:
        """Order a burst of calls."""
        self._ours.sendall(b"k" if then_die else b"c")

    def finished(self) -> bool:
        """Wait for the burst's end; returns whether the worker still lives."""
        self._ours.settimeout(PATIENCE)
        try:
            return self._ours.recv(1) == b"."
        except OSError:
            return False

    def ended(self) -> int:
        """Let it end, and return its status."""
        with suppress(OSError):  # it may have gone by itself
            self._ours.sendall(b"q")
        self._ours.close()
        return os.waitpid(self.pid, 0)[1]

    def may_write(self, most: int) -> None:
        """Let no file of its grow beyond so many bytes, as on a disk without room."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


MESSAGES = [{"role": "user", "content": "What does the fox do?"}]


class Tales(logging.Handler):
    """Counts the warnings of a worker."""

    def __init__(self, numbers: memoryview) -> None:
        super().__init__(logging.WARNING)
        self._numbers = numbers

    def emit(self, record: logging.LogRecord) -> None:
        """Count it, if it is one of `TALES`."""
        for at, tale in enumerate(TALES, 1):
            self._numbers[at] += tale in record.getMessage()


class Outage(NamedTuple):
    """What was seen of one kind of fault."""

    rounds: int = 0
    wrong: int = 0  # pages that never showed what was called
    told_wrong: int = 0  # workers that did not tell of it once


class Nursery:
    """Workers, what they have called, and what the page says of it."""

    def __init__(self, url: str, page: str, folder: Path) -> None:
        self.url, self.page, self.folder = url, page, folder
        self.places = [Worker(url) for _ in range(PLACES)]
        self.before = [0] * PLACES  # calls of the killed ones whose sums the living one of a place has
        self.least = 0.0
        self.fell = self.failed = self.died = self.most_files = 0
        self.kinds: dict[str, Outage] = {}

    def called(self) -> int:
        """Calls that the page must show."""
        return sum(self.before) + sum(worker.numbers()[0] for worker in self.places)

    def look(self, *, falls: bool = False, fails: bool = False) -> tuple[float, ...] | None:
        """Ask for the page. Sums that are less than before count as a fault, unless files were removed."""
        try:
            with urllib.request.urlopen(self.page, timeout=PATIENCE) as answer:
                lines = answer.read().decode().splitlines()
        except (urllib.error.HTTPError, OSError):
            self.failed += not fails
            return None
        sums = tuple(
            sum(float(li.rpartition(" ")[2]) for li in lines if li.startswith(name)) for name in SUMS
        )
        if not falls:
            self.fell += min(sums) < self.least
            self.least = max(self.least, min(sums))
        self.most_files = max(self.most_files, sum(1 for _ in self.folder.glob("*")))
        return sums

    def settled(self, **allowed: bool) -> bool:
        """Wait until the page shows all that was called."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.look(**allowed) == (self.called(),) * len(SUMS):
                self.least = float(self.called())
                return True
            time.sleep(0.1)
        return False

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """All workers are in the middle of calls; at the end they have made them."""
        for worker in self.places:
            worker.begin()
        yield
        self.died += sum(not worker.finished() for worker in self.places)

    def killed(self, place: int) -> None:
        """One kills itself right after a call; the next takes its sums over."""
        victim = self.places[place]
        victim.begin(then_die=True)
        self.died += victim.finished() + (victim.ended() != signal.SIGKILL)

    def replaced(self, place: int) -> None:
        """Start another, whose first call takes over the files that nobody holds."""
        self.before[place] += self.places[place].numbers()[0]
        self.places[place] = worker = Worker(self.url)
        worker.begin()
        self.died += not worker.finished()

    def round(self, kind: str, place: int) -> None:
        """One outage of a kind, from its begin until all is right again."""
        told = [sum(worker.numbers()[1:]) for worker in self.places]
        good = getattr(self, kind)(place)
        again = [sum(worker.numbers()[1:]) for worker in self.places]
        expected = kind != "dead"  # nobody has anything to tell of another's end
        wrong = sum(
            b - a != expected
            for at, (a, b) in enumerate(zip(told, again, strict=True))
            if at != place or kind in ("files", "full")
        )
        rounds, bad, told_wrong = self.kinds.get(kind, Outage())
        self.kinds[kind] = Outage(rounds + 1, bad + (not good), told_wrong + wrong)

    def dead(self, place: int) -> bool:
        """A worker is killed: nothing is lost, before another has its sums and after."""
        self.killed(place)
        good = self.settled()
        self.replaced(place)
        return good and self.settled()

    def files(self, _: int) -> bool:
        """All files are removed in the middle of calls; whoever lives writes them anew."""
        with self.traffic():
            for path in self.folder.iterdir():
                path.unlink(missing_ok=True)
        return self.settled(falls=True)

    def folder_and_dead(self, place: int) -> bool:
        """The folder is removed with the sums of one that was killed: these are gone, and nothing else."""
        self.killed(place)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.before[place] = 0
        self.places[place] = Worker(self.url)
        with self.traffic():
            self.look(falls=True, fails=True)
        return self.settled(falls=True, fails=True)

    def full(self, _: int) -> bool:
        """No worker can write for a while."""
        for worker in self.places:
            worker.may_write(0)
        with self.traffic():
            self.look()
        self.look()
        for worker in self.places:
            worker.may_write(resource.RLIM_INFINITY)
        return self.settled()

    def rows(self) -> list[Row]:
        """What must hold."""
        rows: list[Row] = []
        for kind, outage in self.kinds.items():
            name = f"workers: {kind.replace('_', ' ')}"
            rows.append((f"{name}: rounds", "> 0", outage.rounds, outage.rounds > 0))
            rows.append((f"{name}: totals not what was called", "0", outage.wrong, not outage.wrong))
            rows.append((f"{name}: not told once", "0", outage.told_wrong, not outage.told_wrong))
        most = KINDS * (PLACES + 2)
        rows.append(("workers: files", f"≤ {most}", self.most_files, self.most_files <= most))
        for what in ("fell", "failed", "died"):
            found = getattr(self, what)
            rows.append((f"workers: {WHAT[what]}", "0", found, not found))
        return rows


WHAT = {"fell": "totals that fell", "failed": "pages that failed", "died": "processes that ended otherwise"}


def serve(seconds: float, url: str) -> list[Row]:
    """Go through all kinds of faults, place by place, for so long, and at least once."""
    with tempfile.TemporaryDirectory(prefix="lz-soak-workers-") as above:
        folder = Path(above, "shared")
        folder.mkdir()
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        import lz_otel

        status = lz_otel.instrument(
            exporters="prometheus", prometheus_host="127.0.0.1", prometheus_port=0, mechanisms=("none",)
        )
        nursery = Nursery(url, f"http://127.0.0.1:{status.prometheus_port}/metrics", folder)
        with nursery.traffic():
            pass
        nursery.settled()
        end, turn = time.monotonic() + seconds, 0
        while turn == 0 or time.monotonic() < end:
            for kind in ("dead", "files", "full", "folder_and_dead"):
                nursery.round(kind, turn % PLACES)
            turn += 1
        nursery.died += sum(worker.ended() != 0 for worker in nursery.places)
        rows = nursery.rows()
        lz_otel.uninstrument()
    return rows


def start(seconds: float) -> subprocess.Popen[str]:
    """Begin it beside the other traffic."""
    command = [sys.executable, "-m", "benchmarks.soak_workers", str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)


def result(process: subprocess.Popen[str]) -> list[Row]:
    """Wait for its rows."""
    try:
        output, _ = process.communicate(timeout=300)
        return [(what, expected, found, holds) for what, expected, found, holds in json.loads(output)]
    except (subprocess.TimeoutExpired, ValueError) as error:
        process.kill()
        process.wait()
        return [("workers: a result", "one", type(error).__name__, False)]


if __name__ == "__main__":
    from lz_otel.lab.simulator import load, running

    with running(load("healthy"), process=True, latency_scale=0.0) as simulator:
        print(json.dumps(serve(float(sys.argv[1]), simulator.url)))
