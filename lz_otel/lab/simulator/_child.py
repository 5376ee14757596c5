"""A simulator in a process of its own: started by `running`, ends when its standard input does."""

from __future__ import annotations

import asyncio
import json
import pickle
import signal
import sys
import threading

from lz_otel.errors import ConfigurationError
from lz_otel.lab.simulator._server import Simulator, listen, url_of


def main() -> int:
    """Read host, port, scenario and options; say the address in one line; serve.

    The parent keeps our standard input open. However it ends, that is the end of us too.
    """
    host, port, scenario, options = pickle.load(sys.stdin.buffer)
    try:
        simulator = Simulator(scenario, **options)
        server = simulator.make_server()
        listener = listen(host, port)
    except ConfigurationError as error:
        _say({"error": [error.setting, str(error.value), error.allowed]})
        return 2

    def finish(*_: object) -> None:
        server.should_exit = True

    def wait_for_the_parent() -> None:
        sys.stdin.buffer.read()
        finish()

    signal.signal(signal.SIGTERM, finish)
    threading.Thread(target=wait_for_the_parent, daemon=True).start()
    _say({"url": url_of(host, listener)})
    asyncio.run(server.serve(sockets=[listener]))
    simulator.provider.truth.close()
    return 0


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
