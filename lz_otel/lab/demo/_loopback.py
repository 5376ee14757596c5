"""The demo talks to its own simulator on loopback: no proxy of the machine is between them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES = ("NO_PROXY", "no_proxy")  # both are read, and where they differ the lower case wins
_LOOPBACK = "127.0.0.1,localhost,::1"


@contextmanager
def without_proxy() -> Iterator[None]:
    """While this is entered, a client that is made reaches loopback directly; other hosts as before.

    HTTP clients read the environment when they are made: what was set is put back at the end.
    """
    before = {name: os.environ.get(name) for name in _NAMES}
    kept = before["no_proxy"] if before["no_proxy"] is not None else before["NO_PROXY"]
    if kept != "*":  # which is a word of its own: no proxy at all
        os.environ.update(dict.fromkeys(_NAMES, f"{kept},{_LOOPBACK}" if kept else _LOOPBACK))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
