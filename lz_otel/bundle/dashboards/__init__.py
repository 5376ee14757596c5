"""Grafana dashboards, one file each, as JSON text.

Needs the extra ``bundle`` (grafana-foundation-sdk for Grafana 11.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel.bundle.config import Config
from lz_otel.errors import MissingDependencyError

if TYPE_CHECKING:
    from lz_otel.bundle.dashboards.board import Board

__all__ = ["boards", "dashboards"]


def boards(config: Config | None = None) -> list[Board]:
    """Return all dashboards, in the order in which they are read.

    Raises:
        MissingDependencyError: the extra ``bundle`` is not installed.
    """
    try:
        from lz_otel.bundle.dashboards import (  # optional package
            caches,
            cost,
            families,
            internals,
            overview,
            reliability,
            rollout,
        )
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "grafana_foundation_sdk":
            raise
        raise MissingDependencyError("grafana-foundation-sdk", "bundle", "making dashboards") from error
    use = config or Config()
    return [one.build(use) for one in (overview, families, caches, cost, reliability, rollout, internals)]


def dashboards(config: Config | None = None) -> dict[str, str]:
    """Return the JSON text of every dashboard by its file name; the same on every run.

    Raises:
        MissingDependencyError: the extra ``bundle`` is not installed.
    """
    return {board.file: board.json() for board in boards(config)}
