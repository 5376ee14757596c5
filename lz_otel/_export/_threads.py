"""Threads of ours."""

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
