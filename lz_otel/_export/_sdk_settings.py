"""Settings of OpenTelemetry itself that its API or SDK raises at: one clear error of ours instead."""

from __future__ import annotations

import importlib
import os
import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar

from lz_otel._config import skip
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    T = TypeVar("T")

# What the SDK calls a setting in its errors where it does not name the variable.
_WORDS = {
    "max_queue_size": "OTEL_BSP_MAX_QUEUE_SIZE", "max_export_batch_size": "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "schedule_delay_millis": "OTEL_BSP_SCHEDULE_DELAY", "export_timeout_millis": "OTEL_BSP_EXPORT_TIMEOUT",
}  # fmt: skip
# Variables of numbers: their values, and errors about them, hold no secret.
_PLAIN = re.compile(r"OTEL_(?:BSP|SPAN|EVENT|LINK|ATTRIBUTE)_[A-Z_]+")


def refused(error: Exception) -> ConfigurationError | None:
    """Return what the SDK raised at variables that are set, as an error that names them; else ``None``."""
    text = str(error)
    words = [variable for word, variable in _WORDS.items() if word in text]
    names = [name for name in dict.fromkeys([*_PLAIN.findall(text), *words]) if name in os.environ]
    if not isinstance(error, ValueError) or not names:
        return None
    values = ", ".join(os.environ[name] for name in names)
    allowed = f"what the OpenTelemetry SDK accepts ({type(error).__name__}: {text})"
    return ConfigurationError(", ".join(names), values, allowed)


def usable(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the exporters of spans; none, and a warning, where their settings cannot be used."""
    try:
        _traces().check_settings(names)
    except ConfigurationError as error:
        skip(error, "no spans are exported")
        return ()
    return names


def set_up(names: tuple[str, ...]) -> Any:
    """Set up exporters of spans (`traces.set_up`), or warn of what the SDK refuses."""
    try:
        return _traces().set_up(names) if names else None
    except ConfigurationError as error:
        skip(error, "no spans are exported")
        return None


def _traces() -> ModuleType:
    """Import our module for spans. Some limits of spans are read by the SDK as it is imported."""
    try:
        return importlib.import_module("lz_otel._export.traces")
    except ValueError as error:
        if known := refused(error):
            raise known from None
        raise


def asked(kind: str, get: Callable[[], T]) -> T:
    """Return the global provider.

    Args:
        kind: ``meter_provider`` or ``tracer_provider``.
        get: the API's function that gives it, and makes it where ``OTEL_PYTHON_*_PROVIDER`` says which.

    Raises:
        ConfigurationError: the one that is named is not installed, or cannot be made.
    """
    try:
        return get()
    except Exception as error:
        if known := refused(error):
            raise known from None
        variable = f"OTEL_PYTHON_{kind.upper()}"
        name = os.environ.get(variable)
        if name is None:  # not the doing of that variable
            raise
        installed = sorted({point.name for point in entry_points(group=f"opentelemetry_{kind}")})
        allowed = f"one that can be made ({type(error).__name__})"
        if name not in installed:
            allowed = f"one of {', '.join(installed)}, or no such variable"
        raise ConfigurationError(variable, name, allowed) from None


def check_provider(kind: str, get: Callable[[], object]) -> bool:
    """Return whether `asked` is going to work, without making a provider that has not been asked for yet.

    No provider of that name is installed, and the application has set none: that is a warning.
    """
    name = os.environ.get(f"OTEL_PYTHON_{kind.upper()}")
    if name is not None and not entry_points(group=f"opentelemetry_{kind}", name=name):
        try:
            asked(kind, get)
        except ConfigurationError as error:
            skip(error, "no spans are made")
            return False
    return True
