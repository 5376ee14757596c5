"""Worker processes that share ``PROMETHEUS_MULTIPROC_DIR``, for `test_multiprocess`.

``python sharing.py NAME`` runs the function of that name.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from lz_otel import catalogue
from lz_otel._export import _server, _worker_file, multiprocess
from lz_otel._export._worker_file import WorkerFile, remove_dead_gauges
from lz_otel._export.multiprocess import MultiprocessExporter
from lz_otel._export.prometheus import StoreCollector
from lz_otel._ground.guard import guard
from lz_otel._measure.store import Store
from tests.export.filling import measurements

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = os.environ["PROMETHEUS_MULTIPROC_DIR"]
COMMON = ("chat", "anthropic", "claude-sonnet-5", "", "")
ATTEMPT = (catalogue.ATTEMPTS, (*COMMON, "200"), 1)
ACTIVE = (catalogue.CALL_ACTIVE, COMMON, 1)
LIMIT = (*COMMON[:3], "", "requests")


def new(port: int = 0) -> tuple[Store, MultiprocessExporter]:
    """A store with an exporter that is started, and that follows a fork as lz_otel's does."""
    store = Store(catalogue.selected("latest"))
    exporter = MultiprocessExporter(store, "127.0.0.1", port)
    exporter.start()

    def child() -> None:
        store.clear()
        exporter.after_fork_in_child()

    os.register_at_fork(after_in_child=child)
    return store, exporter


def merged() -> str:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry).decode()


def scrape(port: int | None, query: str = "") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics{query}") as answer:
        return str(answer.read().decode())


def show(name: str, text: str | None = None) -> None:
    """Print the samples whose names begin like this."""
    for line in sorted((text or merged()).splitlines()):
        if line.startswith(name):
            print(line)


def fork(work: Callable[[], Any]) -> int:
    """Process number of a child that does this and leaves."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(9)
    return pid


def one_process() -> None:
    """Every metric, counted before and after the start: what the store shows, then the merged files."""
    store = Store(catalogue.selected("both"))
    rows = measurements(3, store.metrics)
    store.add(rows[:150])
    MultiprocessExporter(store, "127.0.0.1", 0).start()
    store.add(rows[150:])
    store.touch(catalogue.ATTEMPTS, [(*COMMON, "529")])
    print(StoreCollector(store).text())
    print("-----")
    print(merged())


def two_children() -> None:
    """Five calls of a parent and one of each of two children: as merged, and as scraped."""
    store, exporter = new()
    store.add([ATTEMPT] * 5 + [ACTIVE] * 2)
    children = [fork(lambda: store.add([ATTEMPT])) for _ in range(2)]
    for pid in children:
        os.waitpid(pid, 0)
    show("lz_attempts")
    show("lz_call_active")
    show("lz_attempts", scrape(exporter.port))


def zeros() -> None:
    """A counter that begins at 0."""
    store, _ = new()
    store.touch(catalogue.ATTEMPTS, [(*COMMON, "200")])
    show("lz_attempts")


def killed_child() -> None:
    """A worker that is killed in the middle of a call, before and after a scrape."""
    store, exporter = new()
    store.add([ATTEMPT, ACTIVE])

    def work() -> None:
        store.add([ATTEMPT, ACTIVE, (catalogue.RATE_LIMIT_REMAINING, LIMIT, 7)])
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(fork(work), 0)
    show("lz_call_active")
    show("lz_rate_limit")
    text = scrape(exporter.port)
    show("lz_call_active", text)
    show("lz_attempts", text)
    show("lz_rate_limit", text)


def orderly_ends() -> None:
    """A worker that exits, and one that is killed and marked as dead."""
    store, _ = new()

    def killed() -> None:
        store.add([ACTIVE, ATTEMPT])
        os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        store.add([ACTIVE, ATTEMPT])
        sys.exit(0)
    os.waitpid(pid, 0)
    show("lz_call_active")
    pid = fork(killed)
    os.waitpid(pid, 0)
    show("lz_call_active")
    mark_process_dead(pid)  # type: ignore[no-untyped-call]
    show("lz_call_active")
    show("lz_attempts")


def limits_that_end() -> None:
    """Of two living workers' readings the later one ends, then the other."""
    store, exporter = new()
    reading = (catalogue.RATE_LIMIT_REMAINING, LIMIT)
    store.add([ATTEMPT, (*reading, 5)])
    read, write = os.pipe()
    go, say = os.pipe()

    def work() -> None:
        store.add([(*reading, 9)])
        os.write(write, b"x")
        os.read(go, 1)
        store.drop([reading])
        os.write(write, b"x")
        time.sleep(60)

    pid = fork(work)
    os.read(read, 1)
    show("lz_rate_limit", scrape(exporter.port))
    os.write(say, b"x")
    os.read(read, 1)
    show("lz_rate_limit", scrape(exporter.port))
    store.drop([reading])
    show("lz_rate_limit", scrape(exporter.port))
    os.kill(pid, signal.SIGKILL)
    os.wait()


def limits() -> None:
    """Two living workers that hear of the same limit, one after the other."""
    store, _ = new()

    def limit(n: int) -> None:
        store.add([(catalogue.RATE_LIMIT_REMAINING, LIMIT, n), (catalogue.BUILD_INFO, ("1", "3", "", ""), 1)])

    limit(5)
    read, write = os.pipe()
    pid = fork(lambda: (limit(9), os.write(write, b"x"), time.sleep(60)))
    os.read(read, 1)
    show("lz_rate_limit")
    show("lz_build")
    limit(4)
    show("lz_rate_limit")
    os.kill(pid, signal.SIGKILL)
    os.wait()


def handed_over() -> None:
    """Two workers with one port: the one that serves is killed, the other one takes it over."""
    _server.RETRY_EVERY = 0.05
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    read, write = os.pipe()

    def worker() -> None:
        store, _ = new(port)
        store.add([ATTEMPT])
        os.write(write, b"x")
        time.sleep(60)

    def scraped() -> str:
        while True:
            try:
                return scrape(port)
            except OSError:
                time.sleep(0.02)

    workers = []
    for _ in range(2):
        workers.append(fork(worker))
        os.read(read, 1)
    for pid in workers:
        show("lz_attempts", scraped())
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def busy_forks() -> None:
    """Forks while other threads write; prints whether every count is there."""
    store, _ = new()
    over = threading.Event()
    made = [0, 0]

    def measure(i: int) -> None:
        while not over.is_set():
            store.add([ATTEMPT])
            made[i] += 1
            if made[i] % 50 == 0:
                time.sleep(0.001)

    def work() -> None:
        signal.alarm(10)
        store.add([ATTEMPT])

    threads = [threading.Thread(target=measure, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        assert os.waitpid(fork(work), 0)[1] == 0
    over.set()
    for thread in threads:
        thread.join()
    samples = [line for line in merged().splitlines() if line.startswith("lz_attempts")]
    print(float(samples[0].rpartition(" ")[2]) == sum(made) + 30)


def fork_amid_a_write() -> None:
    """A fork while a thread holds a lock inside prometheus_client; prints the child's status."""
    store, exporter = new()
    store.add([ATTEMPT])
    theirs, inside = threading.Lock(), threading.Event()

    class Slow(WorkerFile):
        def write(self) -> None:
            with theirs:
                inside.set()
                time.sleep(0.3)

    exporter._files["counter"].__class__ = Slow
    thread = threading.Thread(target=store.add, args=([ATTEMPT],))
    thread.start()
    inside.wait()
    pid = fork(lambda: theirs.acquire(timeout=0.5) or os._exit(1))
    print(os.waitpid(pid, 0)[1])


def the_hosts_own() -> None:
    """A counter of the host beside ours: both, one by name, and ours after a stop."""
    orders = Counter("shop_orders", "of the host", registry=None)
    store, exporter = new()
    orders.inc(2)
    store.add([ATTEMPT])
    text = scrape(exporter.port)
    show("shop_orders_total", text)
    show("lz_attempts", text)
    text = scrape(exporter.port, "?name[]=shop_orders_total")
    print([line for line in text.splitlines() if "#" not in line])
    exporter.stop()
    store.add([ATTEMPT])
    show("lz_attempts")


def log() -> None:
    """Print what the package logs, without the folder's name."""

    class Log(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage().replace(FOLDER, "FOLDER")
            print("LOG", text.partition(":")[2].strip()[:70], flush=True)

    logging.getLogger("lz_otel").addHandler(Log())


def vanished() -> None:
    """The files are removed, then the whole folder; each time all that was counted comes back."""
    log()
    store, exporter = new()
    os.waitpid(fork(lambda: store.add([ATTEMPT] * 4)), 0)
    store.add([ATTEMPT, ACTIVE])
    for file in Path(FOLDER).iterdir():
        file.unlink()
    exporter.look()
    store.add([ATTEMPT])
    show("lz_attempts")
    show("lz_call_active")
    shutil.rmtree(FOLDER)
    for _ in range(3):
        exporter.look()
        store.add([ATTEMPT])
    Path(FOLDER).mkdir()
    exporter.look()
    show("lz_attempts")
    show("lz_call_active")
    shutil.rmtree(FOLDER)
    multiprocess._MISSING = 0.0
    exporter.look()
    exporter.look()
    show("lz_attempts")


def vanished_then_fork() -> None:
    """A child that is forked when the folder is gone makes its calls, and so does the parent."""
    log()
    guard.on_fault = lambda where: store.add([(catalogue.INTERNAL_ERRORS, (where,), 1)])
    store, _ = new()
    store.add([ATTEMPT])
    shutil.rmtree(FOLDER)
    print(os.waitpid(fork(lambda: (signal.alarm(10), store.add([ATTEMPT]), store.add([ATTEMPT]))), 0)[1])
    print(store.value(catalogue.ATTEMPTS))


def cannot_be_written() -> None:
    """A folder that may be opened, but not written (also by root)."""
    log()
    signal.alarm(20)
    store, exporter = new()
    guard.on_fault = lambda where: store.add([(catalogue.INTERNAL_ERRORS, (where,), 1)])
    store.add([ATTEMPT])
    exporter.look()
    exporter.stop()
    print(store.value(catalogue.ATTEMPTS))


def counted_before_told() -> None:
    """A forked child counts before the exporter is told of the fork: the parent's file is not touched."""
    store = Store(catalogue.selected("latest"))
    MultiprocessExporter(store, "127.0.0.1", 0).start()
    store.add([ATTEMPT, ACTIVE])

    def work() -> None:
        store.clear()
        store.touch(catalogue.INTERNAL_ERRORS, [("export",)])
        store.add([ATTEMPT])

    os.waitpid(fork(work), 0)
    show("lz_attempts")
    show("lz_call_active")


def full() -> None:
    """A disk that is full for a while: the host goes on, and all is there when it has room again."""
    log()
    store, exporter = new()
    store.add([ATTEMPT])
    whole = _worker_file.os.pwrite

    def no_room(fd: int, data: bytes, at: int) -> int:
        if at + len(data) > os.fstat(fd).st_size:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(fd, data, at)

    _worker_file.os.pwrite = no_room
    for i in range(5):
        store.add([ATTEMPT, (catalogue.ATTEMPTS, (*COMMON[:2], f"model-{i}", "", "", "200"), 1)])
    show("lz_attempts")
    _worker_file.os.pwrite = whole
    exporter.look()
    print(
        sum(
            float(line.rpartition(" ")[2]) for line in merged().splitlines() if line.startswith("lz_attempts")
        )
    )


def cut_short() -> None:
    """A file that somebody empties is written again."""
    log()
    store, exporter = new()
    store.add([ATTEMPT] * 3)
    for file in Path(FOLDER).iterdir():
        file.write_bytes(b"")
    store.add([ATTEMPT])
    exporter.look()
    show("lz_attempts")


def generations() -> None:
    """Thirty workers, one after the other, and two at a time: files of two, and every count."""
    store, _ = new()
    store.add([ATTEMPT])
    read, write = os.pipe()
    for _ in range(15):
        first = fork(lambda: (store.add([ATTEMPT, ACTIVE]), os.write(write, b"x"), time.sleep(60)))
        os.read(read, 1)
        os.waitpid(fork(lambda: store.add([ATTEMPT])), 0)
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
    show("lz_attempts")
    print(sorted(file.name for file in Path(FOLDER).iterdir() if "gauge" not in file.name))
    print(len(list(Path(FOLDER).glob("gauge_livesum*"))) <= 3)


def hosts_gauge(early: bool) -> None:
    """A gauge of the host in the same mode, made before ours or after: as merged, and when all is gone."""
    reached, done = os.pipe(), os.pipe()

    def make() -> None:
        Gauge("shop_open", "of the host", multiprocess_mode="livesum", registry=None).set(3)

    def work() -> None:
        if early:
            make()
        store, _ = new()
        store.add([ACTIVE])
        if not early:
            make()
        store.add([(catalogue.CALL_ACTIVE, (*COMMON[:2], "m", "", ""), 1), ACTIVE])
        os.write(reached[1], b"x")
        os.read(done[0], 1)
        os.kill(os.getpid(), signal.SIGKILL)

    pid = fork(work)
    os.read(reached[0], 1)
    show("lz_call_active")
    show("shop_open")
    os.write(done[1], b"x")
    os.waitpid(pid, 0)
    mark_process_dead(pid)  # type: ignore[no-untyped-call]
    remove_dead_gauges(Path(FOLDER))
    show("lz_call_active")
    show("shop_open")


def hosts_gauge_early() -> None:
    hosts_gauge(early=True)


def hosts_gauge_late() -> None:
    hosts_gauge(early=False)


def stopped_and_started() -> None:
    """Two instrumentations of one process, one after the other: the totals go on."""
    for _ in range(2):
        store, exporter = new()
        store.add([ATTEMPT, ACTIVE])
        exporter.stop()
    show("lz_attempts")
    show("lz_call_active")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
