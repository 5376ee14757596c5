"""A raw server on loopback that sends whatever bytes a test gives it, and the measure of memory."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Raw", "peak"]


class Raw:
    """Answers each connection with one response, given as pieces of bytes, and closes it.

    Args:
        pieces: called for each connection.
    """

    def __init__(self, pieces: Callable[[], Iterable[bytes]]) -> None:
        self._pieces = pieces
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def url(self) -> str:
        """A Messages API."""
        return f"http://127.0.0.1:{self.port}/v1/messages"

    def _run(self) -> None:
        while True:
            try:
                one, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with one:
            try:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += one.recv(65536)
                head, _, body = data.partition(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                while len(body) < length:
                    body += one.recv(65536)
                for piece in self._pieces():
                    one.sendall(piece)
                one.shutdown(socket.SHUT_WR)
                while one.recv(65536):
                    pass
            except OSError:
                return

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def peak() -> Iterator[int]:
    """Most resident memory of this process since the last step, in bytes (Linux); the first step begins."""
    clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    while True:
        words = status.read_text().partition("VmHWM:")[2].split()
        yield int(words[0]) * 1024
        clear.write_text("5")
