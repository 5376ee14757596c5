"""Makes packages of this environment look as if they were not installed."""

from __future__ import annotations

import importlib.abc
import sys
from importlib import metadata
from typing import Any


def without(*missing: str) -> None:
    """Let imports of these packages, and questions for their versions, fail from now on."""

    class Blocker(importlib.abc.MetaPathFinder):
        """Refuses what is missing."""

        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name.partition(".")[0] in missing:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    installed = metadata.version

    def version(name: str) -> str:
        if name in missing:
            raise metadata.PackageNotFoundError(name)
        return installed(name)

    sys.meta_path.insert(0, Blocker())
    metadata.version = version
