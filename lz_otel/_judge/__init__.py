"""From an exchange to verdicts: one module per mechanism, all of one shape (`base.Mechanism`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel._judge.intent import Intent
from lz_otel._judge.prompt_cache import PromptCache
from lz_otel._judge.pruning import Pruning
from lz_otel._judge.response_cache import ResponseCache
from lz_otel._judge.scheduling import Scheduling
from lz_otel._judge.symbolic import Symbolic
from lz_otel._judge.zeroing import Zeroing

if TYPE_CHECKING:
    from lz_otel._judge.base import Mechanism

__all__ = ["MECHANISMS"]

MECHANISMS: dict[str, type[Mechanism]] = {
    cls.NAME: cls for cls in (Symbolic, Pruning, Intent, Zeroing, Scheduling, PromptCache, ResponseCache)
}
"""Class of each mechanism, by its name in the catalogue."""
