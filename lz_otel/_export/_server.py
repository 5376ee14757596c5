"""A small HTTP server for metrics: one daemon thread that waits, one per request, a few at once."""

from __future__ import annotations

import contextlib
import errno
import gzip
import ipaddress
import logging
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from lz_otel._export._listeners import FirstCall
from lz_otel._export._threads import start_thread
from lz_otel._ground.guard import guard, guarded
from lz_otel._ground.once import Once

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel._measure.store import Store

    Expose = Callable[[str, list[str]], tuple[bytes, str] | None]

_LOG = logging.getLogger("lz_otel")
_PORT = "OTEL_EXPORTER_PROMETHEUS_PORT"
_HOST = "OTEL_EXPORTER_PROMETHEUS_HOST"
_ADDRESS = "an address of this machine (0.0.0.0: all of them)"
REQUEST_TIMEOUT = 10.0  # seconds a client may take to send its request or read its answer
WAKE_UP = 5.0  # seconds; a stop wakes the thread by itself
TICK = 1.0  # seconds between two calls of what is to be done from time to time
RETRY_EVERY = 5.0  # seconds between two tries for a port that another worker holds
MAX_REQUESTS = 16  # requests answered at once (C)
FREED_WITHIN = 0.5  # seconds for the thread of a connection that was ended to give its seat back
PAUSE = 0.5  # seconds after a connection that could not be accepted for want of something
_TARGET = re.compile(r"(?:/|https?://)[!-~]*", re.IGNORECASE)
_PRIVATE = ("localhost", "local", "internal")  # never in the public DNS (RFC 6761, RFC 6762, ICANN 2024; D)
_WANTING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


class _Server(ThreadingMixIn, TCPServer):
    # Not http.server.HTTPServer: its bind asks the DNS for the machine's full name.
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128
    timeout = WAKE_UP

    def __init__(self, address: tuple[str, int], expose: Expose, stopped: threading.Event) -> None:
        infos = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # "localhost" is often both; IPv4 first, so that 127.0.0.1 works as well.
        info = min(infos, key=lambda info: info[0] != socket.AF_INET)
        self.address_family, self.expose, self.stopped = info[0], expose, stopped
        self.host = address[0]
        self._refused = Once()
        self.seats = threading.Semaphore(MAX_REQUESTS)
        self.begun: dict[Any, float] = {}  # connections that hold a seat, and since when
        self.unread: dict[Any, None] = {}  # those of them whose head is not complete, oldest first
        super().__init__(info[4][:2], _Handler)  # type: ignore[arg-type]  # typeshed: any address family

    def get_request(self) -> tuple[Any, Any]:
        """Accept; without a descriptor the connection stays pending, and trying at once again would spin."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _WANTING:
                self.stopped.wait(PAUSE)
            raise

    @property
    def local(self) -> bool:
        """Return whether only this machine can connect."""
        return ipaddress.ip_address(str(self.server_address[0])).is_loopback

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for this request, if there is a seat."""
        if not self.seats.acquire(blocking=False):
            within = FREED_WITHIN if self._end_oldest() else 0.0
            if not self.seats.acquire(timeout=within):
                self.shutdown_request(request)
                return
        try:
            self.begun[request] = time.monotonic()
            self.unread[request] = None
            super().process_request(request, client_address)
        except BaseException:  # no more threads for this process; the caller closes the connection
            self._free(request)
            raise

    def _end_oldest(self) -> bool:
        """End the oldest connection whose head is not complete, or all that take too long for their answer.

        A client that drips never runs into the socket's timeout.
        """
        slow_since = time.monotonic() - REQUEST_TIMEOUT
        ended = next(iter(list(self.unread)), None)
        slow = [ended] if ended else [one for one, at in list(self.begun.items()) if at < slow_since]
        for request in slow:
            self.unread.pop(request, None)
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
        return bool(slow)

    def warn_refused(self, host: str) -> None:
        """Log, once, that a request for a name of others was refused."""
        if next(self._refused, False):
            text = (
                "Prometheus: a request for the host %.100r was refused: the port is open on %s only. Scrape "
                "that, let a proxy in between send it as the Host, or set %s to an address for all to reach"
            )
            _LOG.warning(text, host, self.host, _HOST)

    def _free(self, request: Any) -> None:
        self.begun.pop(request, None)
        self.unread.pop(request, None)
        self.seats.release()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away; the handler notes faults of ours itself."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_TIMEOUT
    server_version = "lz-otel"
    sys_version = ""

    def parse_request(self) -> bool:
        """Read the head; from then on the connection keeps its seat."""
        good = super().parse_request()
        self.server.unread.pop(self.request, None)
        return good

    def do_GET(self) -> None:
        try:
            url = _target(self.path)
            hosts = [urlsplit(f"//{host}").hostname for host in self._hosts(url.netloc)]
        except ValueError:
            self.send_error(400)
            return
        strange = [host for host in hosts if not _is_ours(host or "", self.server.host)]
        if self.server.local and strange:
            self.server.warn_refused(strange[0] or "")
            self.send_error(403, "Forbidden", "The Host header names no address of this machine.")
            return
        if url.path.rstrip("/") not in ("", "/metrics"):
            self.send_error(404, "Not Found", "The metrics are at /metrics.")
            return
        names = parse_qs(url.query).get("name[]", [])
        exposed = guarded("export")(self.server.expose)(self.headers.get("Accept", ""), names)
        if exposed is None:
            self.send_error(500)
            return
        output, content_type = exposed
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        if _takes_gzip(",".join(self.headers.get_all("Accept-Encoding", []))):
            output = gzip.compress(output, compresslevel=1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(output)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(output)

    def _hosts(self, authority: str) -> list[str]:
        """Return what names this server: the ``Host`` header, and the target where that is a whole URL."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) > 1:
            raise ValueError
        return [host.strip() for host in (*hosts, authority) if host.strip()]

    do_HEAD = do_GET  # noqa: N815 - the name http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Log no scrapes."""


def _target(text: str) -> SplitResult:
    """Return the parts of a request's target.

    Raises:
        ValueError: it is none.
    """
    if not _TARGET.fullmatch(text):
        raise ValueError
    url = urlsplit(text)
    _ = url.port  # raises beyond 65535
    return url


def _is_ours(host: str, listens_on: str) -> bool:
    """Return whether a name can only be meant for this machine: no page of somebody else's site has it.

    A site that points its own name at 127.0.0.1 could read the metrics through a browser on this machine
    (DNS rebinding). Names without a dot, and those below `_PRIVATE`, are nobody's site.
    """
    host = host.rstrip(".")
    names = (listens_on.lower().rstrip("."), socket.gethostname().lower())
    if host in names or "." not in host or host.rpartition(".")[2] in _PRIVATE:
        return True
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def _takes_gzip(accept: str) -> bool:
    """Return whether ``Accept-Encoding`` names gzip with a quality above 0 (RFC 9110, D)."""
    for part in accept.lower().split(","):
        coding, *parameters = (word.strip() for word in part.split(";"))
        if coding == "gzip":
            quality = dict(word.split("=", 1) for word in parameters if "=" in word).get("q", "1")
            with contextlib.suppress(ValueError):
                return 0 < float(quality) <= 1
            return False
    return False


def _hint(error: OSError) -> str:
    """Return what to do about an address that cannot be listened on."""
    if isinstance(error, socket.gaierror):
        return f"Set {_HOST} to a name that resolves here, or to {_ADDRESS}"
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return f"Set {_HOST} to {_ADDRESS}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"Set {_PORT} to a port that this user may listen on (most systems: above 1023)"
    return f"Set {_PORT} to a free port, or PROMETHEUS_MULTIPROC_DIR if other workers of this service hold it"


class MetricsServer:
    """Listens from `start` to `stop`, on port 0 for any free one.

    Args:
        expose: called with the ``Accept`` header and the ``name[]`` parameters, gives body and content type.
        quiet: whether a taken port is normal (another worker has it), and tried again every few seconds.
        tick: called every second or more often, by the thread that listens or tries to.
    """

    def __init__(
        self,
        host: str,
        port: int,
        expose: Expose,
        quiet: bool = False,
        tick: Callable[[], None] | None = None,
    ) -> None:
        self._tick = tick
        self._host, self._port, self._expose, self._quiet = host, port, expose, quiet
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._warned = False
        self._first_call: FirstCall | None = None

    @property
    def port(self) -> int | None:
        """Return the port in use, or ``None`` while nothing listens."""
        server = self._server
        return int(server.server_address[1]) if server else None

    def start(self) -> bool:
        """Bind now, serve in a daemon thread. Returns whether this process has the port."""
        with self._lock:
            if self._thread:
                return self._server is not None
            self._stopped = threading.Event()
            bound = self._bind()
            if bound or self._quiet:
                self._spawn()
            return bound

    def start_in_thread(self) -> None:
        """Do as `start` does, but bind and warn in the thread: for the path of a host's call."""
        with self._lock:
            if not self._thread:
                self._stopped = threading.Event()
                self._spawn()

    def _spawn(self) -> None:
        self._thread = start_thread("lz-otel-prometheus", self._run, self._stopped)

    def _bind(self) -> bool:
        try:
            self._server = _Server((self._host, self._port), self._expose, self._stopped)
        except OSError as error:
            # Only a port that is taken is normal among workers.
            if not self._warned and not (self._quiet and error.errno == errno.EADDRINUSE):
                self._warned = True
                address, reason = f"{self._host}:{self._port}", error.strerror or type(error).__name__
                text = "Prometheus: cannot listen on %s (%s); the service goes on without that port. %s"
                _LOG.warning(text, address, reason, _hint(error))
            return False
        self._warned = False
        return True

    def _run(self, stopped: threading.Event) -> None:
        pause, retry_at = (RETRY_EVERY if self._tick is None else TICK), 0.0
        try:
            while not stopped.is_set():
                if self._tick is not None:
                    self._tick()
                server = self._server
                if server is not None:
                    server.timeout = min(pause, WAKE_UP)
                    server.handle_request()
                    continue
                bound, now = False, time.monotonic()
                if now >= retry_at:
                    retry_at = now + RETRY_EVERY
                    with self._lock:
                        bound = not stopped.is_set() and self._bind()
                if not bound and (not self._quiet or stopped.wait(pause)):
                    return
        except Exception as error:  # noqa: BLE001 - a thread of ours must not print a traceback
            if not stopped.is_set():
                guard.fault("export", error)

    def stop(self, timeout: float) -> None:
        """Release the port; wait for the thread for at most ``timeout`` seconds."""
        self._forget_first_call()
        self._stopped.set()
        with self._lock:
            server, self._server = self._server, None
            thread, self._thread = self._thread, None
        if server:
            # A closed socket keeps its port while a thread polls it; one that is shut down wakes the poll.
            with contextlib.suppress(OSError):
                server.socket.shutdown(socket.SHUT_RDWR)
        if thread and thread is not threading.current_thread():
            thread.join(timeout)
        if server:
            server.server_close()

    def after_fork_in_child(self, store: Store) -> None:
        """Close the parent's socket in this process; serve where the parent did, or tried to.

        The child begins at its first call (`FirstCall`).
        """
        self._forget_first_call()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        server, self._server = self._server, None
        thread, self._thread = self._thread, None
        if server:
            server.server_close()
        if thread is not None or server is not None:
            self._first_call = FirstCall(store, self.start_in_thread)

    def _forget_first_call(self) -> None:
        if self._first_call:
            self._first_call.cancel()
            self._first_call = None
