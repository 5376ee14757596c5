"""What the runtime asks of every exporter of metrics."""

from __future__ import annotations

from typing import Protocol


class Exporter(Protocol):
    """Takes the numbers of a store out of the process. None of its methods raises."""

    @property
    def port(self) -> int | None:
        """The port on which it serves ``/metrics``, or ``None`` while it serves none."""

    def start(self) -> None:
        """Export from now on; what cannot be started is one warning."""

    def stop(self, timeout: float) -> None:
        """Export what is left and end, within about ``timeout`` seconds."""

    def after_fork_in_child(self) -> None:
        """Become the exporter of a forked child, which starts from zero."""
