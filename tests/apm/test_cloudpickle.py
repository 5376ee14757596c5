"""Classes that go by value to another process (Ray, Dask, Spark) while they are observed."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lz_otel
from lz_otel.testing import capture
from tests.processes import run

pytest.importorskip("cloudpickle", reason="cloudpickle has an environment of its own: make test-apm")

import httpx2

ASK = {"model": "claude-haiku-4-5", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}


def test_a_transport_of_main() -> None:
    """It works on the other side without hooks, and with hooks of that side's own."""
    done = run(Path(__file__).parent / "programs" / "by_value.py")
    sent = [pickle.loads(bytes.fromhex(line)) for line in done.stdout.split()]
    assert ["Own", "Heir"] == [type(one).__name__ for one in sent]
    for transport in sent:
        with httpx2.Client(transport=transport) as client:
            url = "https://api.anthropic.com/v1/messages"
            assert 200 == client.post(url, json=ASK).status_code
            with capture(strict=True) as seen:
                assert 1 == lz_otel.instrument_client(client)
                assert 200 == client.post(url, json=ASK).status_code
                assert 1 == seen.value("gen_ai.client.inference.duration")
            assert 200 == client.post(url, json=ASK).status_code
