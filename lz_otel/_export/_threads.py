"""Threads of ours, and what they are asked to send."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from lz_otel._ground.guard import guard

if TYPE_CHECKING:
    from collections.abc import Callable


def start_thread(name: str, target: Callable[..., None], *arguments: Any) -> threading.Thread | None:
    """Start a daemon thread; ``None``, and a fault, where this process may have no more of them."""
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        guard.fault("export", error)
        return None
    return thread


class Flush(threading.Event):
    """What a thread of ours was asked to send; set when that is over."""

    ok = False  # whether all of it arrived

    def end(self, ok: bool) -> None:
        """Note how it went."""
        self.ok = ok
        self.set()

    def arrived(self, seconds: float) -> bool:
        """Return whether all has arrived within so many seconds."""
        return self.wait(max(0.0, seconds)) and self.ok
