"""Calls to ``UPSTREAM`` and an end, for `test_traces`: ``asking.py N END`` asks N times, then ends so."""

from __future__ import annotations

import multiprocessing
import os
import sys

import httpx2

import lz_otel


def ask(n: int) -> None:
    for _ in range(n):
        httpx2.post(
            f"{os.environ['UPSTREAM']}/v1/messages",
            headers={"anthropic-version": "2023-06-01"},
            json={"model": "claude-opus-5", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]},
        )


def main(n: str, end: str) -> None:
    lz_otel.instrument()
    ask(int(n))
    if end == "fork":
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        else:
            ask(2)
    elif end == "multiprocessing":
        child = multiprocessing.get_context("fork").Process(target=ask, args=(2,))
        child.start()
        child.join()
    elif end.startswith("uninstrument"):
        lz_otel.uninstrument()
        if end == "uninstrument and again":
            lz_otel.instrument()
            ask(0)
    elif end.startswith("exit"):
        sys.exit(int(end.removeprefix("exit")))


if __name__ == "__main__":
    main(*sys.argv[1:])
