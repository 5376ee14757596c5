"""From a call to verdicts: one module per row of `lz_otel.mechanisms`, of its name, with its `base.Judge`."""

from __future__ import annotations

import importlib
import importlib.util

from lz_otel._judge.base import Judge


def judge_class(name: str) -> type[Judge]:
    """Return the class that judges a mechanism: the one of the module ``_judge.<name>`` with this ``NAME``.

    Raises:
        LookupError: the mechanism has no judge; the text names the file to write.
    """
    module = f"{__name__}.{name}"
    if importlib.util.find_spec(module) is not None:
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, type) and issubclass(value, Judge) and name == value.NAME:
                return value
    raise LookupError(
        f"lz_otel/_judge/{name}.py must hold the judge of {name!r}: a subclass of Judge with NAME = {name!r}"
    )
