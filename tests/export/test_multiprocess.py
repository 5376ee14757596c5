"""Worker processes that share PROMETHEUS_MULTIPROC_DIR. Real processes throughout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lz_otel._export.multiprocess import MultiprocessExporter, directory, mark_process_dead
from tests.export.filling import filled, from_text

ROOT = Path(__file__).resolve().parents[2]
HEAD = f"""
import os, signal, socket, sys, threading, time, urllib.request
sys.path.insert(0, {str(ROOT)!r})
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from lz_otel import catalogue
from lz_otel._export.multiprocess import MultiprocessExporter, mark_process_dead
from lz_otel._measure.store import Store

COMMON = ("chat", "anthropic", "claude-sonnet-5", "", "")
ATTEMPT = (catalogue.ATTEMPTS, (*COMMON, "200"), 1)
ACTIVE = (catalogue.CALL_ACTIVE, COMMON, 1)

def new(port=0, serve=True):
    store = Store(catalogue.selected("latest"))
    exporter = MultiprocessExporter(store, "127.0.0.1", port, serve)
    exporter.start()
    def child():
        store.clear()
        exporter.after_fork_in_child()
    os.register_at_fork(after_in_child=child)
    return store, exporter

def merged():
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry).decode()

def show(name, text=None):
    for line in sorted((text or merged()).splitlines()):
        if line.startswith(name):
            print(line)

def fork(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(9)
    return pid
"""
LABELS = 'gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-sonnet-5",lz_group="",lz_route=""'
ATTEMPTS = f'lz_attempts_total{{{LABELS},status="200"}}'
ACTIVE = f"lz_call_active{{{LABELS}}}"


def run(body: str, folder: Path) -> str:
    """A process that is given up after 30 seconds; its standard output."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + body],
        env={"PATH": os.environ.get("PATH", ""), "PROMETHEUS_MULTIPROC_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


def test_merged_series_are_the_stores(tmp_path: Path) -> None:
    """For one process the merged files show what the store shows: names, labels, bounds, values."""
    body = """
from tests.export.filling import filled, measurements
from lz_otel._export.prometheus import StoreCollector
store = Store(catalogue.selected("both"))
rows = measurements(3, store.metrics)
store.add(rows[:150])
MultiprocessExporter(store, serve=False).start()
store.add(rows[150:])
store.touch(catalogue.ATTEMPTS, [(*COMMON, "529")])
print(StoreCollector(store).text())
print("-----")
print(merged())
"""
    ours, theirs = (from_text(text) for text in run(body, tmp_path).split("-----\n"))
    assert set(ours) == set(theirs)
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_workers_are_added_up(tmp_path: Path) -> None:
    """Five calls of a parent and one of each of two forked children are seven; no child repeats the parent's."""
    body = """
store, exporter = new()
store.add([ATTEMPT] * 5 + [ACTIVE] * 2)
children = [fork(lambda: store.add([ATTEMPT])) for _ in range(2)]
for pid in children:
    os.waitpid(pid, 0)
show("lz_attempts")
show("lz_call_active")
text = urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics").read().decode()
show("lz_attempts", text)
"""
    assert f"{ATTEMPTS} 7.0\n{ACTIVE} 2.0\n{ATTEMPTS} 7.0\n" == run(body, tmp_path)


def test_zeros_are_there(tmp_path: Path) -> None:
    """Counters that begin at 0 are in the files before anything is counted."""
    body = """
store, _ = new(serve=False)
store.touch(catalogue.ATTEMPTS, [(*COMMON, "200")])
show("lz_attempts")
"""
    assert f"{ATTEMPTS} 0.0\n" == run(body, tmp_path)


def test_gauges_of_dead_workers_go(tmp_path: Path) -> None:
    """What a killed worker had in flight is gone at the next scrape of our port; what it counted stays."""
    body = """
store, exporter = new()
store.add([ATTEMPT, ACTIVE])
def work():
    store.add([ATTEMPT, ACTIVE, (catalogue.RATE_LIMIT_REMAINING, (*COMMON[:3], "requests"), 7)])
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(fork(work), 0)
show("lz_call_active")
show("lz_rate_limit")
text = urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics").read().decode()
show("lz_call_active", text)
show("lz_attempts", text)
show("lz_rate_limit", text)
"""
    limit = f'lz_rate_limit_remaining{{{LABELS.partition(",lz_")[0]},resource="requests"}} 7.0\n'
    assert f"{ACTIVE} 2.0\n{limit}{ACTIVE} 1.0\n{ATTEMPTS} 2.0\n" == run(body, tmp_path)


def test_a_worker_that_ends_in_order_takes_its_gauges_along(tmp_path: Path) -> None:
    """A process that exits removes its own gauges, and ``mark_process_dead`` those of another."""
    body = """
store, exporter = new(serve=False)
def ends():
    store.add([ACTIVE, ATTEMPT])
    sys.exit(0)
def killed():
    store.add([ACTIVE, ATTEMPT])
    os.kill(os.getpid(), signal.SIGKILL)
pid = os.fork()
if pid == 0:
    ends()
os.waitpid(pid, 0)
show("lz_call_active")
pid = fork(killed)
os.waitpid(pid, 0)
show("lz_call_active")
mark_process_dead(pid)
show("lz_call_active")
show("lz_attempts")
"""
    assert f"{ACTIVE} 1.0\n{ATTEMPTS} 2.0\n" == run(body, tmp_path)


def test_limits_are_the_last_that_anybody_was_told(tmp_path: Path) -> None:
    """Of several living workers' rate limits the most recent one is shown, and build information stays 1."""
    body = """
store, exporter = new(serve=False)
limit = lambda n: store.add([(catalogue.RATE_LIMIT_REMAINING, (*COMMON[:3], "requests"), n),
                             (catalogue.BUILD_INFO, ("1", "3", "", ""), 1)])
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
"""
    labels = f'lz_rate_limit_remaining{{{LABELS.partition(",lz_")[0]},resource="requests"}}'
    build = 'lz_build_info{httpx2_version="",httpx_version="",python_version="3",version="1"} 1.0'
    assert f"{labels} 9.0\n{build}\n{labels} 4.0\n" == run(body, tmp_path)


def test_the_port_is_handed_over(tmp_path: Path) -> None:
    """The first worker serves for all; when it ends, another takes the port by itself, without a word."""
    body = """
from lz_otel._export import _server
_server.RETRY_EVERY = 0.05
with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    port = one.getsockname()[1]
def worker(ready):
    store, exporter = new(port)
    store.add([ATTEMPT])
    os.write(ready, b"x")
    time.sleep(60)
read, write = os.pipe()
first = fork(lambda: worker(write))
os.read(read, 1)
second = fork(lambda: worker(write))
os.read(read, 1)
def scrape():
    while True:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        except OSError:
            time.sleep(0.02)
show("lz_attempts", scrape())
os.kill(first, signal.SIGKILL)
os.waitpid(first, 0)
show("lz_attempts", scrape())
os.kill(second, signal.SIGKILL)
os.waitpid(second, 0)
"""
    assert f"{ATTEMPTS} 2.0\n" * 2 == run(body, tmp_path)


def test_fork_while_a_thread_writes(tmp_path: Path) -> None:
    """Forks while other threads are inside prometheus_client: no child hangs in its first call, no count is lost."""
    body = """
store, exporter = new(serve=False)
over = threading.Event()
made = [0, 0]
def measure(i):
    while not over.is_set():
        store.add([ATTEMPT])
        made[i] += 1
        if made[i] % 50 == 0:
            time.sleep(0.001)
threads = [threading.Thread(target=measure, args=(i,)) for i in range(2)]
for one in threads:
    one.start()
def work():
    signal.alarm(10)
    store.add([ATTEMPT])
for _ in range(30):
    assert os.waitpid(fork(work), 0)[1] == 0
over.set()
for one in threads:
    one.join()
samples = [l for l in merged().splitlines() if l.startswith("lz_attempts")]
print(float(samples[0].rpartition(" ")[2]) == sum(made) + 30)
"""
    assert "True\n" == run(body, tmp_path)


def test_a_fork_waits_for_a_write(tmp_path: Path) -> None:
    """No fork happens while one of our threads is inside prometheus_client: its lock is never copied locked."""
    body = """
store, exporter = new(serve=False)
store.add([ATTEMPT])
theirs, inside = threading.Lock(), threading.Event()
class Slow:
    def inc(self, amount):
        with theirs:
            inside.set()
            time.sleep(0.3)
exporter._cells[id(catalogue.ATTEMPTS)][ATTEMPT[1]].value = Slow()
thread = threading.Thread(target=store.add, args=([ATTEMPT],))
thread.start()
inside.wait()
pid = fork(lambda: theirs.acquire(timeout=0.5) or os._exit(1))
print(os.waitpid(pid, 0)[1])
"""
    assert "0\n" == run(body, tmp_path)


def test_the_hosts_own_metrics_are_merged_too(tmp_path: Path) -> None:
    """Metrics that the host makes with prometheus_client lie in the same files and are served with ours."""
    body = """
orders = Counter("shop_orders", "of the host", registry=None)
store, exporter = new()
orders.inc(2)
store.add([ATTEMPT])
text = urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics").read().decode()
show("shop_orders_total", text)
show("lz_attempts", text)
text = urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics?name[]=shop_orders_total").read().decode()
print([line for line in text.splitlines() if "#" not in line])
exporter.stop()
store.add([ATTEMPT])
show("lz_attempts")
"""
    assert f"shop_orders_total 2.0\n{ATTEMPTS} 1.0\n['shop_orders_total 2.0']\n{ATTEMPTS} 1.0\n" == run(
        body, tmp_path
    )


def test_a_vanished_directory_reaches_nobody(tmp_path: Path) -> None:
    """When the files cannot be made any more, the host's calls go on."""
    folder = tmp_path / "gone"
    folder.mkdir()
    body = """
import logging, shutil
logging.getLogger("lz_otel").addHandler(logging.StreamHandler(sys.stdout))
store, exporter = new(serve=False)
shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"])
store.add([ATTEMPT])
store.add([ATTEMPT])
print(store.value(catalogue.ATTEMPTS))
"""
    lines = run(body, folder).splitlines()
    assert (2, "2.0") == (len(lines), lines[1])
    assert "FileNotFoundError" in lines[0]


def test_without_the_variable_it_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set after prometheus_client was imported, the variable has no effect: one warning, and nothing else."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/nowhere")
    store = filled()
    exporter = MultiprocessExporter(store, "127.0.0.1", 0)
    exporter.start()
    exporter.after_fork_in_child()
    exporter.stop()
    mark_process_dead(1)
    assert (None, None, []) == (directory(), exporter.port, store.listeners)
    [record] = caplog.records
    assert "PROMETHEUS_MULTIPROC_DIR='/nowhere'" in record.getMessage()
