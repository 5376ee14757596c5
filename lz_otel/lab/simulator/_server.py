"""Starting and stopping: in a thread for tests, in a process for the demo, or in the foreground."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lz_otel.errors import ConfigurationError, LzOtelError, MissingDependencyError
from lz_otel.lab.simulator import scenario as scenarios
from lz_otel.lab.simulator._clock import Clock
from lz_otel.lab.simulator._provider import Provider
from lz_otel.lab.simulator._truth import read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lz_otel.lab.simulator.scenario import Scenario


def _need(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingDependencyError(package, "demo", "the simulator") from None


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        ConfigurationError: the port cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        allowed = f"a port that can be bound on {host} ({error.strerror})"
        raise ConfigurationError("port", port, allowed) from None
    listener.listen(1024)
    listener.setblocking(False)
    return listener


# Settings of uvicorn; no log, since connections are cut on purpose here.
_UVICORN: dict[str, Any] = {
    "ws": "none", "lifespan": "off", "log_config": None, "log_level": "critical", "access_log": False,
    "server_header": False, "timeout_keep_alive": 75, "timeout_graceful_shutdown": 1, "backlog": 1024,
}  # fmt: skip


class _Watched:
    """A simulator, here or in another process: what it did, read once no request is in progress."""

    _step = 0.003  # seconds between two looks

    def _records(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _totals(self) -> dict[str, Any]:
        raise NotImplementedError

    def settle(self, wait: float = 5.0) -> bool:
        """Wait until no request is in progress; False when some still are."""
        return _wait_for(lambda: not self._totals()["active"], wait, self._step)

    def truth(self, wait: float = 5.0) -> list[dict[str, Any]]:
        """Return all records by ordinal, after waiting at most so many seconds for requests in progress."""
        self.settle(wait)
        return self._records()

    def summary(self, wait: float = 5.0) -> dict[str, Any]:
        """Return totals, after waiting at most so many seconds for requests in progress."""
        self.settle(wait)
        return self._totals()


class Simulator(_Watched):
    """A loopback provider of LLM APIs with fast paths, faults and a truth log.

    Args:
        scenario: a `Scenario`, the name of one, or a path to a TOML file.
        seed: seed of all draws; the same seed does the same to the same calls.
        time_scale: simulated seconds per real second for cache lifetimes and timelines.
        truth_path: file that gets the truth log as JSON lines, besides memory.
        latency_scale: factor on all waiting times, in place of the scenario's; 0 for none.

    Raises:
        ConfigurationError: the scenario cannot be used.
    """

    def __init__(
        self,
        scenario: Scenario | str | Path = "healthy",
        *,
        seed: int = 0,
        time_scale: float = 1.0,
        truth_path: str | Path | None = None,
        latency_scale: float | None = None,
    ) -> None:
        chosen = scenarios.load(scenario) if isinstance(scenario, (str, Path)) else scenario
        if latency_scale is not None:
            chosen = chosen.changed(latency={"scale": latency_scale})
        self.scenario = chosen
        self.seed = seed
        self.url = ""
        path = Path(truth_path) if truth_path is not None else None
        self.provider = Provider(chosen, seed, Clock(time_scale), path)
        self._peers: dict[Any, asyncio.Transport] = {}
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def application(self) -> Any:
        """Return the ASGI application; raises MissingDependencyError where starlette is not installed."""
        _need("starlette")
        from lz_otel.lab.simulator._app import make_app

        return make_app(self.provider, self._peers)

    def make_server(self) -> Any:
        """Return a uvicorn server for the application, not yet started."""
        uvicorn = _need("uvicorn")
        base = _need("uvicorn.protocols.http.auto").AutoHTTPProtocol
        peers = self._peers

        class Protocol(base):  # type: ignore[misc, valid-type]  # the base depends on what is installed
            """uvicorn's protocol, which also keeps open connections at hand, so that they can be cut."""

            def connection_made(self, transport: asyncio.Transport) -> None:
                super().connection_made(transport)
                peers[transport.get_extra_info("peername")[:2]] = transport

            def connection_lost(self, exc: Exception | None) -> None:
                peers.pop(self.transport.get_extra_info("peername")[:2], None)
                super().connection_lost(exc)

        config = uvicorn.Config(self.application(), http=Protocol, **_UVICORN)
        return uvicorn.Server(config)

    def opened(self, port: int, host: str) -> tuple[Any, socket.socket]:
        """Return a server that is not yet started, and the socket on which it is to serve."""
        server, listener = self.make_server(), listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{listener.getsockname()[1]}"
        return server, listener

    def start(self, port: int = 0, host: str = "127.0.0.1") -> None:
        """Serve in a thread; returns when it answers. Port 0 takes a free one; see `url`."""
        server, listener = self.opened(port, host)
        self._server = server
        serve = partial(asyncio.run, server.serve(sockets=[listener]))
        thread = self._thread = threading.Thread(target=serve, name="lz-simulator", daemon=True)
        thread.start()
        _wait_for(lambda: server.started or not thread.is_alive(), 10.0)
        if not server.started:
            raise LzOtelError("the simulator did not start")

    def stop(self) -> None:
        """Stop serving. Connections still open are cut."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        server.should_exit = True
        thread.join(3.0)
        if thread.is_alive():
            server.force_exit = True
            thread.join(3.0)
        self.provider.truth.close()
        self._server = self._thread = None

    def _records(self) -> list[dict[str, Any]]:
        return self.provider.truth.records()

    def _totals(self) -> dict[str, Any]:
        return self.provider.truth.summary()

    def advance(self, seconds: float) -> None:
        """Move the simulator's clock forward."""
        self.provider.clock.advance(seconds)

    def reset(self) -> None:
        """Forget everything: truth, caches, windows, timeline."""
        self.provider.reset()


class _Remote(_Watched):
    """A simulator in another process."""

    _step = 0.02

    def __init__(self, url: str) -> None:
        self.url = url

    def _ask(self, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(
            self.url + path, data=body, method="POST" if body is not None else "GET"
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10.0) as response:
            content: bytes = response.read()
        return content

    def _records(self) -> list[dict[str, Any]]:
        return read_lines(self._ask("/__truth").splitlines())

    def _totals(self) -> dict[str, Any]:
        totals: dict[str, Any] = json.loads(self._ask("/__truth/summary"))
        return totals

    def advance(self, seconds: float) -> None:
        """Move the simulator's clock forward."""
        self._ask("/__clock", json.dumps({"advance": seconds}).encode())

    def reset(self) -> None:
        """Forget everything: truth, caches, windows, timeline."""
        self._ask("/__reset", b"")


def _wait_for(ready: Callable[[], object], seconds: float, step: float = 0.003) -> bool:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            return False
        time.sleep(step)
    return True


def _spawn(
    host: str, port: int, scenario: Any, options: dict[str, Any]
) -> tuple[subprocess.Popen[bytes], str]:
    """Start a simulator in a process of its own; its address once it listens."""
    import_path = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    child = subprocess.Popen(
        [sys.executable, "-m", "lz_otel.lab.simulator._child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": import_path},
        start_new_session=True,  # Ctrl-C goes to the parent, who reads the truth first and ends us then
    )
    if child.stdin is None or child.stdout is None:
        raise LzOtelError("the simulator's process has no pipes")
    pickle.dump((host, port, scenario, options), child.stdin)
    child.stdin.flush()
    line = child.stdout.readline()
    answer = json.loads(line) if line else {}
    if "url" in answer:
        return child, str(answer["url"])
    _end(child)
    if "error" in answer:
        raise ConfigurationError(*answer["error"])
    raise LzOtelError("the simulator's process did not start")


def _end(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    try:
        child.wait(5.0)  # it ends because its standard input has
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def running(
    scenario: Scenario | str | Path = "healthy",
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    process: bool = False,
    **options: Any,
) -> Iterator[Simulator | _Remote]:
    """Run a simulator for the time of a ``with`` block.

    Args:
        scenario, port, host, options: as for `simulate`.
        process: serve from a process of its own, so that it takes no time from this one.

    Yields:
        Something with ``url``, ``truth()``, ``summary()``, ``settle()``, ``advance()``, ``reset()``.

    Raises:
        ConfigurationError: the scenario or the port cannot be used.
        MissingDependencyError: starlette or uvicorn is not installed.
    """
    if not process:
        simulator = Simulator(scenario, **options)
        simulator.start(port, host)
        try:
            yield simulator
        finally:
            simulator.stop()
        return
    Simulator(scenario, **{**options, "truth_path": None}).application()  # raises here what is wrong
    child, url = _spawn(host, port, scenario, options)
    try:
        remote = _Remote(url)
        remote.settle()  # it listens already, and answers once it serves
        yield remote
    finally:
        _end(child)


def simulate(
    port: int = 8000,
    host: str = "127.0.0.1",
    scenario: Scenario | str | Path = "healthy",
    *,
    on_start: Callable[[str], object] = str,
    **options: Any,
) -> None:
    """Serve in the foreground until SIGTERM or SIGINT; both end it cleanly.

    Args:
        port: 0 takes a free one.
        host: address to listen on.
        scenario: a `Scenario`, the name of one, or a path to a TOML file.
        on_start: called with the URL once it listens.
        options: as for `Simulator`.

    Raises:
        ConfigurationError: the scenario or the port cannot be used.
        MissingDependencyError: starlette or uvicorn is not installed.
    """
    simulator = Simulator(scenario, **options)
    server, listener = simulator.opened(port, host)

    def finish(*_: Any) -> None:
        server.should_exit = True

    before = {s: signal.signal(s, finish) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        on_start(simulator.url)
        asyncio.run(server.serve(sockets=[listener]))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        simulator.provider.truth.close()
