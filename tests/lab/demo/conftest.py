"""The demo needs the official SDKs and what the simulator is served with."""

from __future__ import annotations

import pytest

for needed in ("anthropic", "openai", "starlette", "uvicorn", "rich"):
    pytest.importorskip(needed, reason=f"the demo needs {needed}: install the extra 'demo'")
