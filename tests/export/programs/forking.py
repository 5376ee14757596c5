"""Processes that fork, for `test_fork`: ``python forking.py NAME ARGUMENT…`` runs that function."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, Any

from lz_otel import catalogue
from lz_otel._export.otlp import OtlpExporter
from lz_otel._export.prometheus import PrometheusExporter
from lz_otel._measure.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

inherited: Store | None = None


def new(*makers: Callable[[Store], Any]) -> tuple[Store, list[Any]]:
    """A store with exporters that are started, and that follow a fork as lz_otel's do."""
    store = Store(catalogue.selected("latest"))
    exporters = [make(store) for make in makers]
    for exporter in exporters:
        exporter.start()

    def child() -> None:
        store.clear()
        for exporter in exporters:
            exporter.after_fork_in_child()

    os.register_at_fork(after_in_child=child)
    return store, exporters


def call(store: Store, n: int = 1) -> None:
    for _ in range(n):
        store.add([(catalogue.INTERNAL_OVERHEAD, (), 0.001)])


def otlp(interval: float = 0.1) -> Callable[[Store], OtlpExporter]:
    return lambda store: OtlpExporter(store, interval)


def port(store: Store) -> PrometheusExporter:
    return PrometheusExporter(store, "127.0.0.1", 0)


def two_children() -> None:
    """Five calls in the parent, one in each of two children; prints their process numbers."""
    store, _ = new(otlp())
    call(store, 5)
    children = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            call(store)
            time.sleep(0.6)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    print(*children)


def grandchild() -> None:
    """One call, in a fork of a fork; prints its process number."""
    store, _ = new(otlp(3600))
    if os.fork() == 0:
        if os.fork() == 0:
            call(store)
            sys.stdout.write(str(os.getpid()))
            sys.exit(0)
        os.wait()
        os._exit(0)
    os.wait()


def _one_call() -> None:
    call(inherited or new(otlp(3600))[0])


def children_of_multiprocessing(method: str) -> None:
    """Five calls in the parent, one in each of two children of multiprocessing."""
    global inherited
    context: Any = multiprocessing.get_context(method)
    inherited, _ = new(otlp(3600))
    call(inherited, 5)
    children = [context.Process(target=_one_call) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()


def silent_child(method: str) -> None:
    """A child that makes no call; it prints its port and its threads for one."""
    store, (_, exporter) = new(otlp(), port)
    call(store)

    def work() -> None:
        store.add([(catalogue.BUILD_INFO, ("1", "3", "", ""), 1)])
        store.touch(catalogue.INTERNAL_ERRORS, [("export",)])
        time.sleep(0.5)
        threads = [thread.name for thread in threading.enumerate() if "prometheus" in thread.name]
        print(exporter.port, threads, flush=True)

    if method == "os":
        if os.fork() == 0:
            work()
            sys.exit()
        os.wait()
    else:
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()


def listening_child() -> None:
    """A child that makes a call, and waits for its port."""
    store, (exporter,) = new(port)
    if os.fork() == 0:
        call(store)
        while exporter.port is None:
            time.sleep(0.01)
        print("listens", flush=True)
        os._exit(0)
    os.wait()


def killed_parent() -> None:
    """A parent that is killed while its child lives on; its port is bound again."""
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        _, (exporter,) = new(port)
        number = exporter.port
        if os.fork() == 0:
            os.write(write, f"{number} {os.getpid()}".encode())
        time.sleep(60)
        os._exit(0)
    number, child = map(int, os.read(read, 100).split())
    os.kill(parent, signal.SIGKILL)
    os.wait()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", number))
    listener.listen()
    print("free")
    os.kill(child, signal.SIGKILL)


def busy_forks() -> None:
    """Forks while other threads measure, push and serve scrapes."""
    store, (_, exporter) = new(otlp(0.01), port)
    over = threading.Event()

    def measure() -> None:
        while not over.is_set():
            call(store)
            time.sleep(0.0005)

    def scrape() -> None:
        while not over.is_set():
            urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics").read()

    for work in (measure, measure, scrape):
        threading.Thread(target=work, daemon=True).start()
    for _ in range(30):
        pid = os.fork()
        if pid == 0:
            signal.alarm(10)
            call(store)
            os._exit(0 if store.value(catalogue.INTERNAL_OVERHEAD).count == 1 else 1)
        _, status = os.waitpid(pid, 0)
        assert status == 0, status
        time.sleep(0.01)
    over.set()
    print("done")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
