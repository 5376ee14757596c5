"""As much YAML as rule files need, written the same way every time.

Strings are quoted as JSON quotes them, which YAML reads alike; expressions stand in a block of their own.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["dump", "pretty"]

_SAFE = re.compile(r"[A-Za-z][\w./-]*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
_BREAK = re.compile(r"(and|or|unless)\b")


def pretty(expression: str) -> str:
    """PromQL with a line break before every set operator that is in at most one pair of brackets."""
    out, depth, quoted = [], 0, False
    for position, sign in enumerate(expression):
        before = expression[position - 1] if position else ""
        if sign == '"' and before != "\\":
            quoted = not quoted
        elif not quoted:
            depth += sign in "([{"
            depth -= sign in ")]}"
            if sign == " " and depth <= 1 and _BREAK.match(expression, position + 1):
                out.append("\n" + "  " * depth)
                continue
        out.append(sign)
    return "".join(out)


def dump(value: Any, indent: int = 0) -> str:
    """Mappings, lists, strings and numbers as a block of YAML, with a line break at the end."""
    pad = " " * indent
    if isinstance(value, dict):
        return "".join(f"{pad}{_key(key)}:{_value(key, item, indent)}" for key, item in value.items())
    return "".join(f"{pad}-{_item(item, indent)}" for item in value)


def _key(key: str) -> str:
    return key if _SAFE.fullmatch(key) and key.lower() not in _WORDS else json.dumps(key)


def _value(key: str, item: Any, indent: int) -> str:
    if isinstance(item, dict | list) and item:
        return "\n" + dump(item, indent + 2)
    if isinstance(item, str) and (key == "expr" or "\n" in item):
        text = pretty(item) if key == "expr" else item
        # The indentation is given, since a first line may begin with a space.
        lines = "".join(
            f"{' ' * (indent + 2)}{line}".rstrip() + "\n" for line in text.rstrip("\n").split("\n")
        )
        return f" |2{'' if text.endswith(chr(10)) else '-'}\n{lines}"
    return f" {_scalar(item)}\n"


def _item(item: Any, indent: int) -> str:
    if isinstance(item, dict) and item:
        return " " + dump(item, indent + 2).lstrip(" ")
    return f" {_scalar(item)}\n"


def _scalar(item: Any) -> str:
    if isinstance(item, str) and _SAFE.fullmatch(item) and item.lower() not in _WORDS:
        return item
    return json.dumps(item, ensure_ascii=False)
