"""Whether this is the main interpreter of the process.

Ending another one ends the whole process where a daemon thread still runs in it (C: up to Python 3.14
"Fatal Python error: Py_EndInterpreter"), and each would count, and answer at the port, for itself.
"""

from __future__ import annotations

import importlib
import logging
import sys

_LOG = logging.getLogger("lz_otel")


def is_main() -> bool:
    """Return whether this code runs in the main interpreter; true where Python does not say."""
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    try:
        module = importlib.import_module(name)
        return bool(module.get_current() == module.get_main())
    except (ImportError, AttributeError):  # another Python than CPython
        return True


def refused() -> bool:
    """Return whether this is another interpreter than the main one; where it is, log one warning."""
    if is_main():
        return False
    text = "run the service in the main one (mod_wsgi: WSGIApplicationGroup %{GLOBAL})"
    _LOG.warning("lz_otel: nothing is observed, since this is a subinterpreter; %s", text)
    return True
