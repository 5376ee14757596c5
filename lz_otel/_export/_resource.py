"""Who reports: the SDK's resource, with an instance id that no two processes share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opentelemetry.sdk import resources
from opentelemetry.sdk.resources import Resource

if TYPE_CHECKING:
    from lz_otel._measure.store import Store

INSTANCE_ID = "service.instance.id"
_PART = 13  # characters (48 bits) of a store's life behind an id that was given (C)
_random_used = ("", "")  # the SDK's random id, and the life of the store that reports under it


class Identity:
    """The resource of this process, detected once.

    Sums that begin at 0 need an id of their own, however their process was started: a receiver would take
    them for those of another process, or miss that they began anew. So an id that was given is followed by
    ``/`` and a part of the store's life. The SDK's random id is taken as it is, once in a process.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._detected = Resource.create()
        self._given = str(self._detected.attributes.get(INSTANCE_ID) or "")
        self._random = self._given == _sdk_id()
        self.resource = self._renewed({})

    def after_fork_in_child(self) -> None:
        """Become the child's, whose store has been cleared.

        It is not detected anew: that takes a thread pool, which a process on its way out cannot have.
        """
        changed: dict[str, str | int] = {}
        if "process.pid" in self._detected.attributes:
            changed["process.pid"] = os.getpid()
        if "process.parent_pid" in self._detected.attributes:
            changed["process.parent_pid"] = os.getppid()
        self.resource = self._renewed(changed)

    def _renewed(self, changed: dict[str, str | int]) -> Resource:
        return self._detected.merge(Resource({**changed, INSTANCE_ID: self._instance()}))

    def _instance(self) -> str:
        global _random_used
        life = self._store.life
        if not self._random:
            return f"{self._given}/{life[:_PART]}" if self._given else life
        random = _sdk_id() or life
        if _random_used[0] != random:
            _random_used = random, life
        # Spans of this process have the SDK's, too
        return random if _random_used[1] == life else life


def _sdk_id() -> str | None:
    """Return the random id that the SDK gives this process, if it is new enough to give one."""
    detector = getattr(resources, "ServiceInstanceIdResourceDetector", None)
    return None if detector is None else str(detector().detect().attributes[INSTANCE_ID])
