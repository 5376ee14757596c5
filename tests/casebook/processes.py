"""Scripts of the casebook in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]

HEAD = f"""
import logging, multiprocessing, os, signal, sys, threading, time
sys.path.insert(0, {str(ROOT)!r})
import httpx2
import lz_otel
from tests.wire_doubles import A_JSON, a_full, transport

URL = "https://api.anthropic.com/v1/messages"
ASK = {{"model": "claude-opus-5", "max_tokens": 10, "messages": [{{"role": "user", "content": "x"}}]}}

def client(answer=lambda request: httpx2.Response(200, json=A_JSON)):
    made = httpx2.Client(transport=transport(httpx2, answer))
    lz_otel.instrument_client(made)
    return made

def calls(n, http=None):
    http = http or client()
    for _ in range(n):
        assert http.post(URL, json=ASK).json()["usage"]["output_tokens"] == 20
"""


def environment(**more: str) -> dict[str, str]:
    """Nothing of the machine's settings but the path."""
    return {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", ""), **more}


def run(
    folder: Path, body: str, *, head: str = HEAD, seconds: float = 40, check: bool = True, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end; it is killed, and the test fails, after ``seconds``."""
    script = folder / "script.py"
    script.write_text(head + body)
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment(**more),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if check:
        assert (0, "") == (done.returncode, done.stderr)
    return done


def start(folder: Path, body: str, more: Mapping[str, str], head: str = HEAD) -> subprocess.Popen[str]:
    """Start a script."""
    script = folder / "script.py"
    script.write_text(head + body)
    return subprocess.Popen(
        [sys.executable, str(script)],
        env=environment(**more),
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
