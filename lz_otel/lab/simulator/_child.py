"""A simulator in a process of its own: started by `running`, ends when its standard input does."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading

from lz_otel.errors import ConfigurationError
from lz_otel.lab.simulator._server import simulate


def main() -> int:
    """Read host, port, scenario and options; say the address in one line; serve.

    The parent keeps our standard input open. However it ends, that is the end of us too.
    """
    host, port, scenario, options = pickle.load(sys.stdin.buffer)

    def started(url: str) -> None:
        threading.Thread(target=_end_with_the_parent, daemon=True).start()
        _say({"url": url})

    try:
        simulate(port, host, scenario, on_start=started, **options)
    except ConfigurationError as error:
        _say({"error": [error.setting, str(error.value), error.allowed]})
        return 2
    return 0


def _end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
