"""Who reports: an instance id that no two processes share."""

from __future__ import annotations

import os

import pytest
from opentelemetry.sdk.resources import Resource

from lz_otel import catalogue
from lz_otel._export._resource import INSTANCE_ID, Identity
from lz_otel._measure.store import Store


def store() -> Store:
    return Store(catalogue.selected("latest"))


def id_of(identity: Identity) -> str:
    return str(identity.resource.attributes[INSTANCE_ID])


@pytest.mark.parametrize("old_sdk", [False, True])
def test_a_random_id_is_new_in_a_child(monkeypatch: pytest.MonkeyPatch, old_sdk: bool) -> None:
    """Without a given id there is one all the same; a child and a second store have others."""
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)
    if old_sdk:
        monkeypatch.setattr("lz_otel._export._resource._sdk_id", lambda: None)
        monkeypatch.setattr("opentelemetry.sdk.resources.Resource.create", lambda: Resource({}))
    one = store()
    identity = Identity(one)
    ids = [id_of(identity), id_of(Identity(one)), id_of(Identity(store())), id_of(Identity(store()))]
    one.clear()
    identity.after_fork_in_child()
    ids.append(id_of(identity))
    assert ids[0] == ids[1]
    assert 4 == len({*ids[1:]} - {""})


def test_a_given_id_is_kept_and_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's id stays in front; each process, each child, and each start from 0 has a part of its own."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"{INSTANCE_ID}=web,a=b,process.pid=1")
    one = store()
    identity = Identity(one)
    ids = [id_of(identity), id_of(Identity(store()))]
    for _ in range(2):
        one.clear()
        identity.after_fork_in_child()
        ids.append(id_of(identity))
    assert 4 == len(set(ids))
    assert {("web", "/", 13)} == {(*i.partition("/")[:2], len(i.partition("/")[2])) for i in ids}
    assert identity.resource.attributes["process.pid"] == os.getpid()
    assert identity.resource.attributes["a"] == "b"
