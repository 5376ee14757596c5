"""Real servers that tests talk to: found on PATH first, else where scripts/fetch-peers puts them;
started, stopped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import HTTPServer

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".peers" / "bin"
HINT = "run scripts/fetch-peers"
# Debian's package renames some upstream programs.
ALIASES = {"alertmanager": ("alertmanager", "prometheus-alertmanager")}


def find(program: str) -> str | None:
    """Path of the program, or ``None``."""
    for name in ALIASES.get(program, (program,)):
        for place in (None, str(BIN)):
            found = shutil.which(name, path=place)
            if found:
                return found
    return None


def need(program: str) -> str:
    """Path of the program; without it the test is skipped, or fails where ``LZ_REQUIRE_PEERS=1``."""
    found = find(program)
    if found:
        return found
    if os.environ.get("LZ_REQUIRE_PEERS") == "1":
        pytest.fail(f"{program} is neither on PATH nor in {BIN}: {HINT}", pytrace=False)
    pytest.skip(f"{program} is not here: {HINT}")


@contextlib.contextmanager
def running(command: list[str], log: Path, url: str, ready: str) -> Iterator[str]:
    """Run a server in its log's folder until the block is left; enters it when ``ready`` answers."""
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=log.parent, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}{ready}", timeout=2):
                break
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, f"{command[0]} does not get ready"
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    """Let a server of this process serve until the block is left; its address."""
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
