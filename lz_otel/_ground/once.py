"""What may happen once only, whichever thread, handler or finalizer comes first."""

from __future__ import annotations

from functools import partial

Once = partial(iter, (True,))
"""Make a mark that one caller gets: ``next(mark, False)`` is true for the first one only.

An iterator over one value: taking it is one step of C, so no thread, greenlet or signal handler can come in
between. ``length_hint(mark)`` is 0 once it is taken.
"""
