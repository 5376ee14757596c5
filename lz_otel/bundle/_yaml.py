"""Rule files as YAML, written the same way every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lz_otel.bundle.promql import pretty
from lz_otel.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Mapping


def dump(document: Mapping[str, Any]) -> str:
    """Return a document as YAML: keys in their order, texts of several lines and expressions in blocks.

    Raises:
        MissingDependencyError: the extra ``bundle`` is not installed.
    """
    try:
        import yaml  # type: ignore[import-untyped]  # an optional package without types
    except ModuleNotFoundError as error:
        raise MissingDependencyError("pyyaml", "bundle", "writing rules") from error

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # as above
        """Texts of several lines in blocks, and no aliases."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    out: str = yaml.dump(_broken(document), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return out


def _broken(value: Any) -> Any:
    """Return the same with line breaks in every expression, for readers of a diff."""
    if isinstance(value, dict):
        return {k: pretty(v) if k == "expr" else _broken(v) for k, v in value.items()}
    return [_broken(one) for one in value] if isinstance(value, list) else value
