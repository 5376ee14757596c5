"""Forks: every process reports its own calls under its own name, and none hangs. Real processes throughout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.export.receiver import Receiver

ROOT = Path(__file__).resolve().parents[2]
NAME = "lz.internal.overhead"
HEAD = """
import multiprocessing, os, signal, socket, sys, threading, time
sys.path.insert(0, {root!r})
from lz_otel import catalogue
from lz_otel._export.otlp import OtlpExporter
from lz_otel._export.prometheus import PrometheusExporter
from lz_otel._export.provider import ProviderExporter
from lz_otel._measure.store import Store

def new(*exporters):
    store = Store(catalogue.selected("latest"))
    made = [make(store) for make in exporters]
    for one in made:
        one.start()
    def child():
        store.clear()
        for one in made:
            one.after_fork_in_child()
    os.register_at_fork(after_in_child=child)
    return store, made

def call(store, n=1):
    for _ in range(n):
        store.add([(catalogue.INTERNAL_OVERHEAD, (), 0.001)])

def otlp(interval=0.1):
    return lambda store: OtlpExporter(store, interval)
"""


def run(body: str, receiver: Receiver | None = None, **environment: str) -> str:
    """A process that is given up after 20 seconds; its standard output."""
    if receiver:
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.endpoint
    done = subprocess.run(
        [sys.executable, "-c", HEAD.format(root=str(ROOT)) + body],
        env={"PATH": os.environ.get("PATH", ""), **environment},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


FORKS = """
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
"""


def test_each_process_reports_its_own(receiver: Receiver) -> None:
    """Five calls in the parent and one in each of two children are seven, from three instance ids."""
    run(FORKS, receiver)
    counts = receiver.last(NAME)
    assert [1, 1, 5] == sorted(counts.values())


def test_a_given_instance_id_stays_unique(receiver: Receiver) -> None:
    """A child of a process with a given instance id adds its process number to it."""
    pids = run(FORKS, receiver, OTEL_RESOURCE_ATTRIBUTES="service.instance.id=blue").split()
    assert {"blue": 5, f"blue-{pids[0]}": 1, f"blue-{pids[1]}": 1} == receiver.last(NAME)


def test_a_grandchild_is_named_once(receiver: Receiver) -> None:
    """A fork of a fork has one process number after the given id, its own."""
    body = """
store, _ = new(otlp(3600))
if os.fork() == 0:
    if os.fork() == 0:
        call(store)
        sys.stdout.write(str(os.getpid()))
        sys.exit(0)
    os.wait()
    os._exit(0)
os.wait()
"""
    pid = run(body, receiver, OTEL_RESOURCE_ATTRIBUTES="service.instance.id=blue")
    assert {f"blue-{pid}": 1} == receiver.last(NAME)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_push_at_their_end(
    method: str, receiver: Receiver, tmp_path: Path
) -> None:
    """Children of multiprocessing leave without atexit; their last values are pushed all the same."""
    script = tmp_path / "service.py"
    script.write_text(
        HEAD.format(root=str(ROOT))
        + f"""
inherited = None

def work():
    store = inherited or new(otlp(3600))[0]
    call(store)

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    inherited, _ = new(otlp(3600))
    call(inherited, 5)
    children = [context.Process(target=work) for _ in range(2)]
    for one in children:
        one.start()
    for one in children:
        one.join()
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        env={"PATH": os.environ.get("PATH", ""), "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert [1, 1, 5] == sorted(receiver.last(NAME).values())


@pytest.mark.parametrize("method", ["os", "multiprocessing"])
def test_a_child_without_calls_is_silent(method: str, receiver: Receiver) -> None:
    """A forked child that makes no call pushes nothing, not even at its end, and opens no port."""
    body = """
store, (push, port) = new(otlp(), lambda s: PrometheusExporter(s, "127.0.0.1", 0))
call(store)
def work():
    store.add([(catalogue.BUILD_INFO, ("1", "3", "", ""), 1)])
    store.touch(catalogue.INTERNAL_ERRORS, [("export",)])
    time.sleep(0.5)
    print(port.port, [t.name for t in threading.enumerate() if "prometheus" in t.name], flush=True)
"""
    if method == "os":
        body += "if os.fork() == 0:\n    work()\n    sys.exit()\nos.wait()\n"
    else:
        body += "one = multiprocessing.get_context('fork').Process(target=work)\none.start()\none.join()\n"
    assert "None []\n" == run(body, receiver)
    assert 1 == len({resource["service.instance.id"] for resource in receiver.resources()})


def test_a_child_listens_at_its_first_call() -> None:
    """A forked child opens a port, where it can be had, when its first call is measured."""
    body = """
store, (port,) = new(lambda s: PrometheusExporter(s, "127.0.0.1", 0))
if os.fork() == 0:
    call(store)
    while port.port is None:
        time.sleep(0.01)
    print("listens", flush=True)
    os._exit(0)
os.wait()
"""
    assert "listens\n" == run(body)


def test_a_child_does_not_hold_the_parents_port() -> None:
    """When the parent is gone its port is free, whatever children are still there."""
    body = """
read, write = os.pipe()
parent = os.fork()
if parent == 0:
    store, (port,) = new(lambda s: PrometheusExporter(s, "127.0.0.1", 0))
    number = port.port
    child = os.fork()
    if child == 0:
        os.write(write, f"{number} {os.getpid()}".encode())
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
    os._exit(0)
number, child = map(int, os.read(read, 100).split())
os.kill(parent, signal.SIGKILL)
os.wait()
one = socket.socket()
one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
one.bind(("127.0.0.1", number))
one.listen()
print("free")
os.kill(child, signal.SIGKILL)
"""
    assert "free\n" == run(body)


def test_fork_while_every_lock_is_in_use(receiver: Receiver) -> None:
    """Forks while other threads measure, push and serve scrapes: no child hangs in its first call."""
    body = """
import urllib.request
store, (push, port) = new(otlp(0.01), lambda s: PrometheusExporter(s, "127.0.0.1", 0))
over = threading.Event()
def measure():
    while not over.is_set():
        call(store)
        time.sleep(0.0005)
def scrape():
    while not over.is_set():
        urllib.request.urlopen(f"http://127.0.0.1:{port.port}/metrics").read()
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
"""
    assert "done\n" == run(body, receiver)
