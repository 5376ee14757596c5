"""Observes transports whose classes are of ``__main__``; prints each as cloudpickle writes it, in hex."""

from __future__ import annotations

from typing import Any

import cloudpickle
import httpx2

import lz_otel


class Own(httpx2.BaseTransport):
    """A transport as it stands in a notebook."""

    def handle_request(self, request: Any) -> Any:
        return httpx2.Response(200, json={})


class Heir(Own):
    """Its method has a cell."""

    def handle_request(self, request: Any) -> Any:
        return super().handle_request(request)


lz_otel.instrument(exporters="none")
for transport in (Own(), Heir()):
    assert 1 == lz_otel.instrument_client(httpx2.Client(transport=transport))
    print(cloudpickle.dumps(transport).hex())
