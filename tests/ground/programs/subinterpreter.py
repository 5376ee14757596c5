"""An application in a subinterpreter that shares the GIL, as under mod_wsgi, which then ends."""

from __future__ import annotations

import importlib
import sys
from typing import Any

APPLICATION = """
import sys
sys.path[:] = {path!r}
import logging
logging.basicConfig(format="%(message)s", stream=sys.stdout)
import lz_otel
print(lz_otel.instrument(prometheus_port=0).enabled, flush=True)
"""


def main() -> None:
    code = APPLICATION.format(path=sys.path)
    if sys.version_info >= (3, 13):
        module: Any = importlib.import_module("_interpreters")
        one = module.create("legacy")
        failed = module.run_string(one, code)
    else:
        module = importlib.import_module("_xxsubinterpreters")
        one = module.create(isolated=False)
        failed = module.run_string(one, code)
    module.destroy(one)
    print(failed, "ended")


if __name__ == "__main__":
    main()
