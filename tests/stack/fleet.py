"""Services of the end-to-end test: each a process with a simulator, lz_otel and the demo's driver.

    python fleet.py '[{"job": "healthy", "scenario": "healthy", "rate": 8, "clock": 1}]'

The official SDKs are imported once, then there is a fork for each job. Each writes one line of JSON when it begins:
its job, the ports of its ``/metrics`` and of its simulator, and the time. All end when their standard input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import traceback
from typing import Any

import anthropic  # noqa: F401 - imported before the forks, which share it
import openai  # noqa: F401 - the same
import starlette.routing  # noqa: F401 - the same
import uvicorn  # noqa: F401 - the same

import lz_otel
from lz_otel.demo.driver import Driver
from lz_otel.simulator import load, running
from lz_otel.simulator.traffic import plan


def serve(job: dict[str, Any]) -> None:
    """One service, until it is ended from outside."""
    scenario = load(job["scenario"])
    with running(scenario, time_scale=job["clock"]) as simulator:
        status = lz_otel.instrument(prometheus_host="127.0.0.1", prometheus_port=0)
        line = {
            "job": job["job"],
            "metrics": status.prometheus_port,
            "simulator": int(simulator.url.rsplit(":", 1)[1]),
            "began": time.time(),
        }
        os.write(1, (json.dumps(line) + "\n").encode())  # one write: lines of several processes do not mix
        asyncio.run(Driver(simulator.url, job["rate"]).run(plan(scenario)))


def end_with_the_parent() -> None:
    """The test holds our standard input open; its end is ours, however it comes."""
    while os.read(0, 1 << 16):
        pass
    os._exit(0)


def main() -> None:
    """Fork, and wait for the end."""
    for job in json.loads(sys.argv[1]):
        if os.fork() == 0:
            threading.Thread(target=end_with_the_parent, daemon=True).start()
            try:
                serve(job)
            except BaseException:
                traceback.print_exc()
                os.write(1, (json.dumps({"job": job["job"], "failed": True}) + "\n").encode())
            os._exit(1)  # a service has no end of its own
    end_with_the_parent()


if __name__ == "__main__":
    main()
