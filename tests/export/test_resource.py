"""Who reports: an instance id that no two processes share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lz_otel._export._resource import INSTANCE_ID, Identity

if TYPE_CHECKING:
    import pytest


def test_a_random_id_is_new_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a given id there is one all the same, and a forked child has another."""
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)
    monkeypatch.setattr("lz_otel._export._resource._sdk_id", lambda: None)
    identity = Identity()
    first = identity.resource.attributes[INSTANCE_ID]
    identity.after_fork_in_child()
    assert first
    assert identity.resource.attributes[INSTANCE_ID] not in ("", first)


def test_a_given_id_is_kept_and_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's id stays, a child puts its own number after it, and a grandchild does so once."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"{INSTANCE_ID}=web,a=b,process.pid=1")
    identity = Identity()
    assert identity.resource.attributes[INSTANCE_ID] == "web"
    for _ in range(2):
        identity.after_fork_in_child()
        assert identity.resource.attributes[INSTANCE_ID] == f"web-{os.getpid()}"
    assert identity.resource.attributes["process.pid"] == os.getpid()
    assert identity.resource.attributes["a"] == "b"
