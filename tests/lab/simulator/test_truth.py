"""The truth log is complete, adds up, and is the same for the same seed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from lz_otel.lab.simulator import load, running
from lz_otel.lab.simulator._truth import Record, Truth
from lz_otel.lab.simulator.traffic import plan

if TYPE_CHECKING:
    from pathlib import Path

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

VOLATILE = (
    "ordinal",
    "at",
    "waited_ms",
    "bytes_sent",
    "engine_ms",
    "cold",
    "similar",
    "ghosts",
    "mechanisms",
)


def drive(sim: Any, scenario: Any, calls: int, workers: int) -> int:
    """Make the planned calls, waiting as they say; returns the number of HTTP requests that were sent."""
    done = [Event() for _ in range(calls)]
    with (
        anthropic.Anthropic(base_url=sim.url, api_key="k") as claude,
        openai.OpenAI(base_url=sim.url + "/v1", api_key="k") as gpt,
        ThreadPoolExecutor(workers) as pool,
    ):
        makers = {
            "messages": claude.messages.create,
            "chat": gpt.chat.completions.create,
            "embeddings": gpt.embeddings.create,
        }

        def one(call: Any) -> None:
            try:
                for number in call.after:
                    done[number].wait(30)
                answer = makers[call.api](**call.kwargs)
                if call.stream:
                    list(answer)
            except Exception:
                pass
            finally:
                done[call.number].set()

        list(pool.map(one, plan(scenario, 1, calls)))
    return len(sim.truth())


def test_the_log_is_complete_and_the_totals_add_up() -> None:
    """Each call of a plan is there with all its attempts, and the summary is the sum of the records."""
    scenario = load("healthy").changed(faults={"overloaded": 0.1, "retry_after_ms": 1})
    with running(scenario, latency_scale=0.0) as sim:
        drive(sim, scenario, 120, 6)
        records, summary = sim.truth(), sim.summary()
    assert {f"c{n}" for n in range(120)} == {r["call"] for r in records}
    assert list(range(1, len(records) + 1)) == [r["ordinal"] for r in records]
    attempts: dict[str, list[int]] = {}
    for record in records:
        attempts.setdefault(record["call"], []).append(record["attempt"])
    assert all(list(range(len(a))) == a for a in attempts.values())
    for name, told in (
        ("input_tokens", ("full", "start")),
        ("output_tokens", ("full",)),
        ("cache_read_tokens", ("full", "start")),
    ):
        assert sum(r[name] for r in records if r["usage_sent"] in told) == summary[name]
    assert (len(records), 0) == (summary["requests"], summary["active"])
    assert len(records) == sum(summary["status"].values()) == sum(summary["ending"].values())
    assert len(records) > 120


def test_the_same_seed_does_the_same_whatever_the_concurrency() -> None:
    """Fault, tokens, path and text length of each attempt do not depend on the order of arrival."""
    scenario = load("healthy").changed(faults={"overloaded": 0.1, "retry_after_ms": 1})

    def run(workers: int, seed: int) -> list[Any]:
        with running(scenario, latency_scale=0.0, seed=seed) as sim:
            drive(sim, scenario, 50, workers)
            rows = [{k: v for k, v in r.items() if k not in VOLATILE} for r in sim.truth()]
        return sorted(rows, key=lambda r: (r["call"], r["attempt"]))

    one = run(1, 4)
    assert one == run(8, 4)
    assert one != run(1, 5)


def test_a_record_is_one_json_line_in_a_file(tmp_path: Path, bench: Any) -> None:
    """The file holds what memory holds."""
    path = tmp_path / "truth.jsonl"
    truth = Truth(path=path)
    for _ in range(3):
        record = truth.begin()
        record.ending = "complete"
        truth.finish(record)
    truth.close()
    assert [1, 2, 3] == [json.loads(line)["ordinal"] for line in path.read_text().splitlines()]
    assert path.read_bytes() == truth.lines()


def test_memory_is_bounded_and_totals_are_not() -> None:
    """Beyond the limit old records go, and counting goes on."""
    truth = Truth(limit=10)
    for _ in range(25):
        truth.finish(truth.begin())
    assert (10, 25) == (len(truth.records()), truth.summary()["requests"])


def test_a_request_in_progress_is_active() -> None:
    """It counts from its arrival to its end."""
    truth = Truth()
    record: Record = truth.begin()
    assert (1, 1) == (truth.active, truth.summary()["begun"])
    truth.finish(record)
    assert 0 == truth.active
