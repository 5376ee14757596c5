"""What may happen once only, whichever thread, handler or finalizer comes first."""

from __future__ import annotations

from _thread import allocate_lock

Once = allocate_lock
"""Make a mark that one caller gets: ``mark.acquire(False)`` is true for the first one only.

A lock that is never released: taking it is one step of C, so no thread or signal handler can come in between.
"""
