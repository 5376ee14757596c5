"""Exceptions of lz_otel.

    LzOtelError
    ├── ConfigurationError      a setting has a value that cannot be used
    ├── MissingDependencyError  an optional package is needed and not installed
    └── CatalogueError          a metric, label or value that the catalogue does not list

None of them is ever raised on the path of a host's request: they come from
``instrument()`` and from tools, before any traffic.
"""

from __future__ import annotations

__all__ = ["CatalogueError", "ConfigurationError", "LzOtelError", "MissingDependencyError"]


class LzOtelError(Exception):
    """Base of everything that lz_otel raises on purpose."""


class _NotShown:
    def __repr__(self) -> str:
        return "(not shown, it may hold a secret)"


NOT_SHOWN = _NotShown()
"""Stands in a `ConfigurationError` for a value that may hold a secret."""


class ConfigurationError(LzOtelError, ValueError):
    """A setting cannot be used. The text names the setting, its value and what is allowed.

    A value that may hold a secret is not in it.
    """

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        self.setting = setting
        self.value = value
        self.allowed = allowed
        super().__init__(f"{setting}={value!r} cannot be used: expected {allowed}")


class MissingDependencyError(LzOtelError, ImportError):
    """An optional package is needed. The text holds the command that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{purpose} needs the package {package!r}: run  pip install 'lz-otel[{extra}]'")


class CatalogueError(LzOtelError, KeyError):
    """A metric, label or label value is not in the catalogue."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""
