"""Decode TOML onto typed structs, with errors that name file, dotted key, value and what is allowed.

The types are plain msgspec: ``forbid_unknown_fields=True`` on the structs, bounds and patterns by
``msgspec.Meta``. A rule that bounds cannot state belongs in ``__post_init__``, which raises
`ConfigurationError` with a field's name (or ``ValueError`` with a sentence); the key is completed here. What
is allowed follows from the type; to word it otherwise, annotate the field with
``Meta(extra={"allowed": "a duration such as 15s"})``.
"""

from __future__ import annotations

import collections.abc
import datetime
import tomllib
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

_LISTS = (list, tuple, set, frozenset, collections.abc.Sequence)
_TABLES = (dict, collections.abc.Mapping)
_PLURALS = {str: "strings", float: "numbers", int: "whole numbers", bool: "true or false"}


def load(source: Path | str, kind: type[T], *, name: str = "") -> T:
    """Read a TOML file, or a text in TOML, as a struct.

    Args:
        source: a path, or the text itself.
        kind: type to decode onto.
        name: what the error's text calls the source, such as ``--config`` or ``LZ_OTEL_PRICES``.

    Raises:
        ConfigurationError: the file cannot be read or is no TOML, or a key or value in it cannot be used.
    """
    path = str(source) if isinstance(source, Path) else ""
    try:
        data = tomllib.loads(source.read_text(encoding="utf-8") if isinstance(source, Path) else source)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(name or "file", path or "text", f"readable TOML ({error})") from error
    return convert(data, kind, name=f"{name} ({path})" if name and path else name or path)


def convert(data: object, kind: type[T], *, name: str = "") -> T:
    """Check parsed TOML and return it as a struct.

    Args:
        data: tables, lists and scalars as ``tomllib`` gives them.
        kind: type to decode onto.
        name: put before the dotted key in the error's text.

    Raises:
        ConfigurationError: naming the key, its value and what is allowed.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        fault = _fault(error, kind, data, "")
        setting = " ".join(part for part in (name, fault.setting) if part)
        raise ConfigurationError(setting or "file", fault.value, fault.allowed) from None


def _fault(error: msgspec.ValidationError, kind: Any, value: object, path: str) -> ConfigurationError:
    """Find the innermost value that its type refuses; msgspec's own text leaves out keys and values."""
    for key, part_kind, part in _parts(kind, value):
        inner = f"{path}{key}" if path else key.removeprefix(".")
        if part_kind is None:
            return ConfigurationError(inner, part, f"one of the keys {', '.join(_keys(kind))}")
        try:
            msgspec.convert(part, part_kind)
        except msgspec.ValidationError as fault:
            return _fault(fault, part_kind, part, inner)
    cause = error.__cause__
    if isinstance(cause, ConfigurationError):
        setting = f"{path}.{cause.setting}" if path else cause.setting
        return ConfigurationError(setting, cause.value, cause.allowed)
    if cause is not None:
        return ConfigurationError(path, value, str(cause))
    if isinstance(value, dict) and _is_struct(kind):
        for field in msgspec.structs.fields(_plain(kind)):
            if field.required and field.encode_name not in value:
                setting = f"{path}.{field.encode_name}" if path else field.encode_name
                return ConfigurationError(setting, None, f"{_allowed(field.type)}, and it must be given")
    return ConfigurationError(path, value, _allowed(kind))


def _parts(kind: Any, value: object) -> Iterator[tuple[str, Any, object]]:
    """Yield key, type and value of what a table or list holds; a key that is not known has no type."""
    plain = _plain(kind)
    origin, arguments = typing.get_origin(plain), typing.get_args(plain)
    if _is_struct(plain) and isinstance(value, dict):
        known = {field.encode_name: field.type for field in msgspec.structs.fields(plain)}
        for key, item in value.items():
            yield f".{key}", known.get(key), item
    elif origin in _TABLES and isinstance(value, dict):
        for key, item in value.items():
            yield f".{key}", arguments[1] if not _keys(plain) or key in _keys(plain) else None, item
    elif origin in _LISTS and isinstance(value, list):
        one_type = origin is not tuple or arguments[1:] == (...,)
        item_kinds = arguments[:1] * len(value) if one_type else arguments
        if len(item_kinds) == len(value):
            for index, (item_kind, item) in enumerate(zip(item_kinds, value, strict=True)):
                yield f"[{index}]", item_kind, item


def _keys(kind: Any) -> tuple[str, ...]:
    """Return the keys that a table may have: a struct's fields or a closed list; empty: any."""
    plain = _plain(kind)
    if _is_struct(plain):
        return tuple(field.encode_name for field in msgspec.structs.fields(plain))
    key_kind = typing.get_args(plain)[0]
    return typing.get_args(key_kind) if typing.get_origin(key_kind) is Literal else ()


def _plain(kind: Any) -> Any:
    """Return the type without annotations and without None, which TOML cannot say."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = kind.__origin__
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = [one for one in typing.get_args(kind) if one is not types.NoneType]
        return _plain(kinds[0]) if len(kinds) == 1 else kind
    return kind


def _is_struct(kind: Any) -> bool:
    plain = _plain(kind)
    return isinstance(plain, type) and issubclass(plain, msgspec.Struct)


def _allowed(kind: Any) -> str:
    """Say what a type allows: its own words, or words made from type and bounds."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = [one for one in typing.get_args(kind) if one is not types.NoneType]
        return " or ".join(_allowed(one) for one in kinds)
    metas = [meta for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    for meta in metas:
        if "allowed" in (meta.extra or {}):
            return str((meta.extra or {})["allowed"])
    plain = _plain(kind)
    origin, arguments = typing.get_origin(plain), typing.get_args(plain)
    if origin is Literal:
        return "one of " + ", ".join(repr(word) for word in arguments)
    if origin in _LISTS:
        count = "" if origin is not tuple or arguments[1:] == (...,) else f"{len(arguments)} "
        return f"a list of {count}{_PLURALS.get(_plain(arguments[0]), 'tables')}"
    if origin in _TABLES:
        return f"a table of {_PLURALS.get(_plain(arguments[1]), 'tables')}"
    if plain in (int, float):
        return ("a whole number" if plain is int else "a number") + _bounds(metas)
    if plain is str:
        patterns = [meta.pattern for meta in metas if meta.pattern]
        return "a string" + (f" that matches {patterns[0]}" if patterns else "")
    words = {bool: "true or false", datetime.date: "a date such as 2026-01-31"}
    return words.get(plain, "a table")


def _bounds(metas: list[msgspec.Meta]) -> str:
    low = next((limit for meta in metas for limit in (meta.ge, meta.gt) if limit is not None), None)
    high = next((limit for meta in metas for limit in (meta.le, meta.lt) if limit is not None), None)
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    if low is not None:
        return f" above {low:g}" if any(meta.gt is not None for meta in metas) else f" of {low:g} or more"
    return "" if high is None else f" of at most {high:g}"
