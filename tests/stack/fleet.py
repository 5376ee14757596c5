"""Services of the end-to-end test: each a process with a simulator, lz_otel and the demo's driver.

    python fleet.py '[{"job": "healthy", "scenario": "healthy", "rate": 8, "clock": 1}]'

The official SDKs are imported once, then there is a fork for each job. Each writes one line of JSON when it
is ready: its job, the ports of its ``/metrics`` and of its simulator. All begin to make calls at the first
line on standard input, and end when that ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import traceback
from typing import Any

import anthropic  # noqa: F401 - imported before the forks, which share it
import openai  # noqa: F401 - the same
import starlette.routing  # noqa: F401 - the same
import uvicorn  # noqa: F401 - the same

import lz_otel
from lz_otel.lab.demo.driver import Driver
from lz_otel.lab.simulator import load, running
from lz_otel.lab.simulator.traffic import plan


def serve(job: dict[str, Any], begin: int) -> None:
    """One service, until it is ended from outside."""
    scenario = load(job["scenario"])
    with running(scenario, time_scale=job["clock"]) as simulator:
        status = lz_otel.instrument(prometheus_host="127.0.0.1", prometheus_port=0)
        driver = Driver(simulator.url, job["rate"])
        say(
            {
                "job": job["job"],
                "metrics": status.prometheus_port,
                "simulator": int(simulator.url.rsplit(":", 1)[1]),
            }
        )
        os.read(begin, 1)
        simulator.reset()  # its timeline begins now
        asyncio.run(driver.run(plan(scenario)))


def say(line: dict[str, Any]) -> None:
    """One write, so that lines of several processes do not mix."""
    os.write(1, (json.dumps(line) + "\n").encode())


def end_with_the_parent(alive: int) -> None:
    """The parent never writes; its end is ours, however it comes."""
    os.read(alive, 1)
    os._exit(0)


def main() -> None:
    """Fork, say when to begin, and wait for the end."""
    begin, let_begin = os.pipe()
    alive, stay = os.pipe()
    for job in json.loads(sys.argv[1]):
        if os.fork() == 0:
            os.close(let_begin)
            os.close(stay)
            threading.Thread(target=end_with_the_parent, args=(alive,), daemon=True).start()
            try:
                serve(job, begin)
            except BaseException:
                traceback.print_exc()
                say({"job": job["job"], "failed": True})
            os._exit(1)  # a service has no end of its own
    sys.stdin.readline()
    os.close(let_begin)
    sys.stdin.read()


if __name__ == "__main__":
    main()
