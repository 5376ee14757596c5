"""Who reports: the SDK's resource, with an instance id that no two processes share."""

from __future__ import annotations

import os
import uuid

from opentelemetry.sdk import resources
from opentelemetry.sdk.resources import Resource

INSTANCE_ID = "service.instance.id"


class Identity:
    """The resource of this process, detected once.

    ``service.instance.id`` is the SDK's random one (made here where the SDK is too old for it). One that the
    user gave is kept, and followed by ``-<pid>`` in forked children.
    """

    def __init__(self) -> None:
        self.resource = self._detected = Resource.create()
        self._given = self._detected.attributes.get(INSTANCE_ID)
        self._random = self._given is None or self._given == _sdk_id()
        if self._given is None:
            self.resource = self._detected.merge(Resource({INSTANCE_ID: str(uuid.uuid4())}))

    def after_fork_in_child(self) -> None:
        """Become the child's.

        It is not detected anew: that takes a thread pool, which a process on its way out cannot have.
        """
        pid = os.getpid()
        instance = (_sdk_id() or str(uuid.uuid4())) if self._random else f"{self._given}-{pid}"
        changed: dict[str, str | int] = {INSTANCE_ID: instance}
        if "process.pid" in self._detected.attributes:
            changed["process.pid"] = pid
        if "process.parent_pid" in self._detected.attributes:
            changed["process.parent_pid"] = os.getppid()
        self.resource = self._detected.merge(Resource(changed))


def _sdk_id() -> str | None:
    """Return the random id that the SDK gives this process, if it is new enough to give one."""
    detector = getattr(resources, "ServiceInstanceIdResourceDetector", None)
    return None if detector is None else str(detector().detect().attributes[INSTANCE_ID])
