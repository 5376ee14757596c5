"""What the commands here have in common:
numbers that are checked, and an environment that changes no figure.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_SETTINGS = ("OTEL_", "LZ_OTEL_", "PROMETHEUS_", "ANTHROPIC_", "OPENAI_")


def whole(least: int) -> Callable[[str], int]:
    """An argument's type: a whole number of at least so much."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not allowed: a whole number, {least} or more")
        return value

    return parse


def without_proxies(environment: MutableMapping[str, str]) -> None:
    """Leave out the proxies: they could not reach the loopback address of this process or of its children."""
    for name in [name for name in environment if name.lower() in _PROXIES]:
        del environment[name]


def without_settings(environment: MutableMapping[str, str]) -> None:
    """Leave out the settings of lz_otel, exporters and SDKs: they would change what is measured."""
    for name in [name for name in environment if name.startswith(_SETTINGS)]:
        del environment[name]
