"""Writes the table of docs/clients.md from calls by the real clients; runs in .venv-clients."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.clients.outcome import table  # noqa: E402 - the project's folder has to be on the path first

page = ROOT / "docs" / "clients.md"
made = re.sub(
    r"(<!-- table -->\n).*?(<!-- end -->)",
    lambda m: f"{m[1]}{table()}{m[2]}",
    page.read_text(),
    flags=re.DOTALL,
)
page.write_text(made)
