"""Instruments where neither SDK is installed, and imports one all the same."""

# ruff: noqa: E402 - what is missing must be so before anything is imported

from __future__ import annotations

import logging
import sys

import pytest

from tests.casebook.programs.without import without

without("anthropic", "openai")

import lz_otel

logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(name)s %(message)s")
print(lz_otel.instrument(exporters="none").hooked)
with pytest.raises(ModuleNotFoundError, match=r"^No module named 'anthropic'$") as refused:
    import anthropic  # noqa: F401 - it must fail
assert refused.value.__context__ is None
