"""Mechanism ``prompt_cache``: its judge, and what follows the providers' caches from outside."""

from __future__ import annotations

from lz_otel._judge.prompt_cache.judge import PromptCacheJudge

__all__ = ["PromptCacheJudge"]
