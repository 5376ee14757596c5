"""What msgspec raises on bytes that it cannot read: one list for every reader."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Up to 0.21 msgspec lets the `UnicodeDecodeError` of an invalid byte pass, later it is a `DecodeError`."""
