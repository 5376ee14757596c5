"""What the commands here have in common: numbers that are checked, and an environment without proxies."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


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
