"""Forks: every process reports its own calls under its own name, and none hangs. Real processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.processes import run

if TYPE_CHECKING:
    from tests.export.receiver import Receiver

FORKING = Path(__file__).parent / "programs" / "forking.py"
NAME = "lz.internal.overhead"


def fork(program: str, *arguments: str, **environment: str) -> str:
    """Standard output of a program of ``programs/forking.py``."""
    return run(FORKING, program, *arguments, silent=True, **environment).stdout


def endpoint(receiver: Receiver) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint}


def test_each_process_reports_its_own(receiver: Receiver) -> None:
    """Five calls in the parent and one in each of two children are seven, from three instance ids."""
    fork("two_children", **endpoint(receiver))
    counts = receiver.last(NAME)
    assert [1, 1, 5] == sorted(counts.values())


@pytest.mark.parametrize("program", ["two_children", "grandchild"])
def test_a_given_instance_id_stays_unique(program: str, receiver: Receiver) -> None:
    """Each process with a given instance id adds one part of its own to it, forks of forks included."""
    given = {"OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=blue"}
    fork(program, **endpoint(receiver), **given)
    calls = receiver.last(NAME)
    assert {"two_children": [1, 1, 5], "grandchild": [1]}[program] == sorted(calls.values())
    assert {("blue", 1)} == {(name.partition("/")[0], name.count("/")) for name in calls}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_push_at_their_end(method: str, receiver: Receiver) -> None:
    """Children of multiprocessing leave without atexit; their last values are pushed all the same."""
    fork("children_of_multiprocessing", method, **endpoint(receiver))
    assert [1, 1, 5] == sorted(receiver.last(NAME).values())


@pytest.mark.parametrize("method", ["os", "multiprocessing"])
def test_a_child_without_calls_is_silent(method: str, receiver: Receiver) -> None:
    """A forked child that makes no call pushes nothing, not even at its end, and opens no port."""
    assert "None []\n" == fork("silent_child", method, **endpoint(receiver))
    assert 1 == len({resource["service.instance.id"] for resource in receiver.resources()})


def test_a_child_listens_at_its_first_call() -> None:
    """A forked child opens a port, where it can be had, when its first call is measured."""
    assert "listens\n" == fork("listening_child")


def test_a_child_does_not_hold_the_parents_port() -> None:
    """When the parent is gone its port is free, whatever children are still there."""
    assert "free\n" == fork("killed_parent")


def test_fork_while_every_lock_is_in_use(receiver: Receiver) -> None:
    """Forks while other threads measure, push and serve scrapes: no child hangs in its first call."""
    assert "done\n" == fork("busy_forks", **endpoint(receiver))
