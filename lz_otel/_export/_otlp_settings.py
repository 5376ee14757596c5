"""The standard variables of OTLP, looked at before the SDK's exporters read them.

The exporters take any protocol for HTTP and any text for an endpoint, and fail at the first push.
"""

from __future__ import annotations

import importlib
import os
import re
from typing import Any
from urllib.parse import urlsplit

from lz_otel._config import host_name
from lz_otel.errors import ConfigurationError, MissingDependencyError

PROTOCOLS = ("grpc", "http/protobuf")
# Other names that gRPC's resolvers take as they are.
_GRPC_NAMES = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):.+")


def _variable(signal: str, what: str) -> tuple[str, str]:
    """Return name and text of the variable that holds: the one of the signal, else the common one."""
    for name in (f"OTEL_EXPORTER_OTLP_{signal.upper()}_{what}", f"OTEL_EXPORTER_OTLP_{what}"):
        if text := os.environ.get(name, "").strip():
            return name, text
    return "", ""


def protocol(signal: str) -> str:
    """Return the protocol of ``metrics`` or ``traces``: ``grpc`` or ``http/protobuf`` (the default).

    Raises:
        ConfigurationError: the variable names another one.
    """
    name, text = _variable(signal, "PROTOCOL")
    if not text and "otlp_proto_grpc" in os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").lower():
        return "grpc"
    if text and text.lower() not in PROTOCOLS:
        raise ConfigurationError(name, text, " or ".join(PROTOCOLS))
    return text.lower() or "http/protobuf"


def exporter_class(path: str, protocol: str, purpose: str) -> Any:
    """Import an exporter of the SDK by its path, such as ``trace_exporter.OTLPSpanExporter``.

    Raises:
        MissingDependencyError: its package is not installed.
    """
    short, extra = ("grpc", "otlp-grpc") if protocol == "grpc" else ("http", "otlp")
    module, _, name = f"opentelemetry.exporter.otlp.proto.{short}.{path}".rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing != "grpc" and not module.startswith(missing):
            raise  # installed, and broken
        raise MissingDependencyError(f"opentelemetry-exporter-otlp-proto-{short}", extra, purpose) from error


def check(signal: str) -> None:
    """Check that protocol and endpoint of ``metrics`` or ``traces`` can be used.

    Raises:
        ConfigurationError: one of them cannot.
    """
    name, text = _variable(signal, "ENDPOINT")
    good = not text or _is_url(text)
    if protocol(signal) == "grpc":
        good = good or _is_url(f"http://{text}", with_port=True) or bool(_GRPC_NAMES.fullmatch(text))
        allowed = "a URL such as http://collector:4317, or host:port"
    else:
        allowed = "a URL such as http://collector:4318"
    if not good:
        raise ConfigurationError(name, _shown(text), allowed)


def missing_file(signal: str) -> str | None:
    """Return the variable and the path of a file of TLS that is not there; ``None`` when all are."""
    for what in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"):
        name, path = _variable(signal, what)
        if path and not os.path.isfile(path):  # noqa: PTH113
            return f"{name}={path}: there is no such file"
    return None


def warn_of_delta(signal: str) -> str | None:
    """Return what to tell of a temporality that is asked for and not to be had; ``None`` when it is not."""
    name = f"OTEL_EXPORTER_OTLP_{signal.upper()}_TEMPORALITY_PREFERENCE"
    text = os.environ.get(name, "").strip().lower()
    if text in ("", "cumulative"):
        return None
    return f"{name} is not honoured: values stay cumulative (a collector's cumulativetodelta makes deltas)"


def _is_url(text: str, with_port: bool = False) -> bool:
    try:
        parts = urlsplit(text)
        host_name(parts.hostname or "")
        port = parts.port  # beyond 65535 it cannot be read
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and port != 0 and not (with_port and port is None)


def _shown(text: str) -> str:
    """Return an endpoint without user, password, path and query, which may be secrets."""
    scheme, slashes, rest = text.partition("//")
    if not slashes:
        scheme, rest = "", text
    host = re.split(r"[?#]", rest)[0].rpartition("@")[2].partition("/")[0]
    return scheme.rpartition("@")[2] + slashes + host
