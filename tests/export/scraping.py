"""Exporters on a port of their own, and scrapes of it."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

if TYPE_CHECKING:
    from lz_otel._export.prometheus import PrometheusExporter

__all__ = ["fetch", "registry"]


def registry() -> CollectorRegistry:
    """An empty registry that looks for clashes, as the global one does."""
    return CollectorRegistry(auto_describe=True)


def fetch(
    exporter: PrometheusExporter, path: str = "/metrics", method: str = "GET", **headers: str
) -> tuple[bytes, str]:
    """Body and content type of an answer."""
    names = {k.replace("_", "-"): v for k, v in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{exporter.port}{path}", headers=names, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read(), answer.headers["Content-Type"]
