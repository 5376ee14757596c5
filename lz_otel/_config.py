"""The table of settings: where each comes from, its type, default and meaning.

Order of precedence: keyword argument of ``instrument()``, environment variable, default.
An environment variable that is set to the empty text counts as unset, as OpenTelemetry has it.
Everything is validated once, at start-up; the documentation page is generated from this table.
"""

from __future__ import annotations

import difflib
import ipaddress
import logging
import math
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, TypeVar, get_args

from lz_otel.catalogue import MECHANISMS
from lz_otel.errors import NOT_SHOWN, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

ExporterName = Literal["prometheus", "otlp", "console", "none"]
TraceExporterName = Literal["otlp", "console", "none"]
Conventions = Literal["latest", "1.36", "both"]
N = TypeVar("N", int, float)
_LOG = logging.getLogger("lz_otel")
# What other SDKs' exporters are called, by the names of ours
_EXPORTERS = {"otlp_proto_http": "otlp", "otlp_proto_grpc": "otlp", "logging": "console", "stdout": "console"}
_TRUE = ("true", "1", "yes", "on")
_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
# The last label is no number: 256.1.1.1 is a mistaken address, not a name.
_HOST_NAME = re.compile(rf"(?:{_LABEL}\.)*(?!\d+\.?$){_LABEL}\.?")


def host_name(value: str) -> str:
    """Return a host name or IP address in the form in which it is compared: lower case, IDNA.

    Raises:
        ValueError: it can be neither.
    """
    value = value.strip()
    if not value.isascii():
        value = value.encode("idna").decode()
    value = value.lower()
    if _HOST_NAME.fullmatch(value) and len(value) <= 253:
        return value
    ipaddress.ip_address(value)
    return value


def _host(value: str) -> str:
    host_name(value)
    return value.strip()


def _flag(value: str) -> bool:
    lowered = value.strip().lower()
    if lowered not in (*_TRUE, "false", "0", "no", "off"):
        raise ValueError
    return lowered in _TRUE


def _within(kind: type[N], low: float, high: float = math.inf) -> Callable[[str], N]:
    def parse(value: str) -> N:
        number = kind(value)
        if not low <= number <= high:
            raise ValueError
        return number

    return parse


def _milliseconds(value: str) -> float:
    return _within(float, 1, 86_400_000)(value) / 1000


def _names(*allowed: str) -> Callable[[str], tuple[str, ...]]:
    def parse(value: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(n.strip().lower() for n in value.split(",") if n.strip()))
        if not names or any(n not in allowed for n in names):
            raise ValueError
        if len(names) > 1 and not {"auto", "none"}.isdisjoint(names):
            raise ValueError
        return names

    return parse


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        lowered = value.strip().lower()
        if lowered not in allowed:
            raise ValueError
        return lowered

    return parse


class _PartError(ValueError):
    """What is wrong with a value that is not shown."""


def _pair(text: str) -> tuple[str, str]:
    host, sep, provider = text.strip().partition("=")
    if not sep or not re.fullmatch(r"[a-z0-9_.\-]{1,40}", provider.strip()):
        raise ValueError
    return host_name(host), provider.strip()


def _provider_map(value: str) -> dict[str, str]:
    providers: dict[str, str] = {}
    for number, text in enumerate(value.split(","), 1):
        try:
            host, provider = _pair(text)
        except ValueError:
            raise _PartError(f"pair {number} is none") from None
        providers[host] = provider
    return providers


def _header(value: str) -> tuple[str, str]:
    name, sep, content = value.partition(":")
    if not sep or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name.strip()) or not content.strip():
        raise ValueError
    return name.strip().lower(), content.strip().lower()


class Setting(NamedTuple):
    """One setting.

    Attributes:
        field: keyword argument of ``instrument()`` and attribute of `Settings`.
        env: environment variable.
        default: value when neither is given, as text ("" = unset).
        parse: text to value; raises ValueError.
        allowed: what is allowed, in words.
        doc: one line of meaning.
        arguments: types accepted as keyword argument, besides text.
        secret: whether somebody may have written a key or a password there: errors do not show it.
    """

    field: str
    env: str
    default: str
    parse: Callable[[str], Any]
    allowed: str
    doc: str
    arguments: tuple[type, ...] = ()
    secret: bool = False


SETTINGS: tuple[Setting, ...] = (
    Setting("exporters", "OTEL_METRICS_EXPORTER", "", _names(*get_args(ExporterName)),
            "a list of prometheus, otlp, console; or none",
            "where metrics go; unset: prometheus, plus otlp as soon as an OTLP endpoint is set; "
            "nothing of ours when the application has set a MeterProvider (that one is used)",
            (tuple, list)),
    Setting("trace_exporters", "OTEL_TRACES_EXPORTER", "", _names(*get_args(TraceExporterName)),
            "a list of otlp, console; or none",
            "where spans go when the application has set no TracerProvider; unset: no spans", (tuple, list)),
    Setting("disabled", "OTEL_SDK_DISABLED", "false", _flag, "true or false",
            "true: instrument() does nothing", (bool,)),
    Setting("prometheus_host", "OTEL_EXPORTER_PROMETHEUS_HOST", "localhost", _host,
            "a host name or IP address, without port", "address on which /metrics is served"),
    Setting("prometheus_port", "OTEL_EXPORTER_PROMETHEUS_PORT", "9464", _within(int, 0, 65535),
            "a port from 0 to 65535 (0: any free)", "port on which /metrics is served", (int,)),
    Setting("export_interval", "OTEL_METRIC_EXPORT_INTERVAL", "60000", _milliseconds,
            "milliseconds from 1 to 86400000", "time between two exports by OTLP", (float, int)),
    Setting("export_timeout", "OTEL_METRIC_EXPORT_TIMEOUT", "30000", _milliseconds,
            "milliseconds from 1 to 86400000", "longest time that one export by OTLP may take", (float, int)),
    Setting("mechanisms", "LZ_OTEL_MECHANISMS", "auto", _names("auto", *MECHANISMS, "none"),
            f"auto, none, or a list of {', '.join(MECHANISMS)}",
            "which fast paths are watched; auto: each as soon as one of its markers is seen", (tuple, list)),
    Setting("conventions", "LZ_OTEL_GENAI_CONVENTIONS", "latest", _choice(*get_args(Conventions)),
            "latest, 1.36 or both", "which OpenTelemetry GenAI conventions the standard metrics follow"),
    Setting("providers", "LZ_OTEL_PROVIDERS", "", _provider_map,
            "pairs host=provider, separated by commas; the host without scheme, port and path, "
            "the provider of at most 40 characters out of [a-z0-9_.-]",
            "provider names for hosts of your own (gateways, self-hosted servers)", (dict,), secret=True),
    Setting("response_cache_header", "LZ_OTEL_RESPONSE_CACHE_HEADER", "", _header,
            "'name: value', as x-my-cache: HIT",
            "response header of your own gateway that tells a hit of its response cache", secret=True),
    Setting("signals", "LZ_OTEL_SIGNALS", "", str, "path of a TOML file",
            "overrides wire fields that were chosen by lz-otel (mark C)", (os.PathLike,)),
    Setting("prices", "LZ_OTEL_PRICES", "", str, "path of a TOML file",
            "prices of your own, on top of the table", (os.PathLike,)),
    Setting("miss_reasons", "LZ_OTEL_MISS_REASONS", "true", _flag, "true or false",
            "tell why the prompt cache was missed, by comparing digests of requests", (bool,)),
    Setting("spans", "LZ_OTEL_SPANS", "auto", _choice("auto", "off"), "auto or off",
            "auto: a span per call while traces are exported"),
    Setting("http_spans", "LZ_OTEL_HTTP_SPANS", "auto", _choice("auto", "on", "off"), "auto, on or off",
            "switch on opentelemetry-instrumentation-httpx; auto: when lz-otel sets up the trace exporter"),
    Setting("call_log", "LZ_OTEL_CALL_LOG", "false", _flag, "true or false",
            "one JSON log line per call (logger lz_otel.calls), without content", (bool,)),
    Setting("audit_log", "LZ_OTEL_AUDIT_LOG", "", str, "path of a file that can be written",
            "keeps the original messages of pruned requests (article 001); holds prompts, mode 0600",
            (os.PathLike,)),
    Setting("audit_max_bytes", "LZ_OTEL_AUDIT_MAX_BYTES", "104857600", _within(int, 1),
            "a number of bytes from 1", "size at which the audit log is rotated", (int,)),
    Setting("audit_backups", "LZ_OTEL_AUDIT_BACKUPS", "5", _within(int, 1), "a number from 1",
            "how many rotated audit logs are kept", (int,)),
    Setting("overhead_sample", "LZ_OTEL_OVERHEAD_SAMPLE", "0.02", _within(float, 0, 1), "a share from 0 to 1",
            "share of calls for which the time spent inside lz_otel is measured", (float, int)),
    Setting("max_series", "LZ_OTEL_MAX_SERIES", "2000", _within(int, 1), "a number from 1",
            "most label sets per metric", (int,)),
)  # fmt: skip

_BY_FIELD = {s.field: s for s in SETTINGS}


class InstrumentSettings(TypedDict, total=False):
    """Keyword arguments of ``instrument()``, as type checkers see them; one key per row of `SETTINGS`.

    ``None`` means not given: the environment variable holds, or else the default.
    """

    exporters: ExporterName | Sequence[ExporterName] | None
    trace_exporters: TraceExporterName | Sequence[TraceExporterName] | None
    disabled: bool | None
    prometheus_host: str | None
    prometheus_port: int | None
    export_interval: float | None  # milliseconds
    export_timeout: float | None  # milliseconds
    mechanisms: str | Sequence[str] | None  # names of lz_otel.mechanisms, "auto" or "none"
    conventions: Conventions | None
    providers: dict[str, str] | None  # host -> gen_ai.provider.name
    response_cache_header: str | None
    signals: str | os.PathLike[str] | None
    prices: str | os.PathLike[str] | None
    miss_reasons: bool | None
    spans: Literal["auto", "off"] | None
    http_spans: Literal["auto", "on", "off"] | None
    call_log: bool | None
    audit_log: str | os.PathLike[str] | None
    audit_max_bytes: int | None
    audit_backups: int | None
    overhead_sample: float | None
    max_series: int | None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force. Made by `load`; one field per row of `SETTINGS`."""

    exporters: tuple[str, ...] | None
    trace_exporters: tuple[str, ...] | None
    disabled: bool
    prometheus_host: str
    prometheus_port: int
    export_interval: float
    export_timeout: float
    mechanisms: tuple[str, ...]
    conventions: str
    providers: Mapping[str, str]
    response_cache_header: tuple[str, str] | None
    signals: str | None
    prices: str | None
    miss_reasons: bool
    spans: str
    http_spans: str
    call_log: bool
    audit_log: str | None
    audit_max_bytes: int
    audit_backups: int
    overhead_sample: float
    max_series: int

    @property
    def otlp_endpoint_set(self) -> bool:
        """Return whether the standard variables name an OTLP endpoint for metrics."""
        names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
        return any(os.environ.get(name) for name in names)


def load(
    environ: Mapping[str, str] | None = None, unread: Collection[str] = (), **arguments: Any
) -> Settings:
    """Return the settings in force.

    A variable of OpenTelemetry's own (``OTEL_…``), which other SDKs share, is never an error: what cannot be
    used of it is one warning.

    Args:
        environ: environment to read, by default that of the process.
        unread: fields whose variables are not looked at.
        **arguments: keyword arguments of ``instrument()``; ``None`` means not given.

    Raises:
        ConfigurationError: a value cannot be used; the text names setting, value and what is allowed.
        TypeError: there is no such setting.
    """
    environ = os.environ if environ is None else environ
    unknown = sorted(set(arguments) - set(_BY_FIELD))
    if unknown:
        raise TypeError(f"instrument() has no setting {unknown[0]!r}; it has {', '.join(sorted(_BY_FIELD))}")
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        given = arguments.get(setting.field)
        if given is not None:
            values[setting.field] = _argument(setting, given)
            continue
        text = "" if setting.field in unread else environ.get(setting.env, "").strip()
        values[setting.field] = _of_variable(setting, text)
    _tell_strangers(environ)
    return Settings(**values)


def _tell_strangers(environ: Mapping[str, str]) -> None:
    """Warn of variables that look like ours and are none: a misspelt one would go unnoticed."""
    known = [setting.env for setting in SETTINGS if setting.env.startswith("LZ_OTEL_")]
    for name in environ:
        if name.startswith("LZ_OTEL") and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            _LOG.warning("lz_otel: %s is no setting: %s", name, meant)


def skip(error: ConfigurationError, instead: str) -> None:
    """Warn of a variable of OpenTelemetry's own that cannot be used; raise any other error.

    Args:
        error: what is wrong with which setting.
        instead: what is done without it.
    """
    if not error.setting.startswith("OTEL_"):
        raise error
    _LOG.warning("lz_otel: %s. The service goes on; %s", error, instead)


def _of_variable(setting: Setting, text: str) -> Any:
    if text and setting.field in ("exporters", "trace_exporters"):
        text = _usable(setting, text)
    if text:
        try:
            return _parse(setting, setting.env, text)
        except ConfigurationError as error:
            skip(error, f"{setting.default or 'nothing'} holds instead")
    if setting.default:
        return setting.parse(setting.default)
    return {} if setting.field == "providers" else None


def _usable(setting: Setting, text: str) -> str:
    """Return of a list of exporters those that we have, under our names; the others are one warning."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    known = dict.fromkeys(_EXPORTERS.get(name, name) for name in names)
    ours = [name for name in known if _parses(setting, name)]
    chosen = [name for name in ours if name != "none"] or ours
    if len(chosen) < len(known):
        others = "those are left out" if not chosen else f"only {', '.join(chosen)} is used"
        skip(ConfigurationError(setting.env, _shown(setting, text), setting.allowed), others)
    return ",".join(chosen)


def _parses(setting: Setting, text: str) -> bool:
    try:
        setting.parse(text)
    except ValueError:
        return False
    return True


def named(error: ConfigurationError, arguments: Mapping[str, Any]) -> ConfigurationError:
    """Return the same error, naming the argument where that and not its variable was used."""
    for setting in SETTINGS:
        if setting.env in error.setting and arguments.get(setting.field) is not None:
            name = error.setting.replace(setting.env, f"instrument({setting.field}=...) ({setting.env})", 1)
            return ConfigurationError(name, error.value, error.allowed)
    return error


def _parse(setting: Setting, name: str, text: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError as error:
        detail = f" ({error})" if isinstance(error, _PartError) else ""
        raise ConfigurationError(name, _shown(setting, text), setting.allowed + detail) from None


def _shown(setting: Setting, value: Any) -> Any:
    """Return a value as errors may show it: not with what may be a URL's user, password or key."""
    return NOT_SHOWN if setting.secret or re.search(r"[@?]|//", str(value)) else value


def _argument(setting: Setting, value: Any) -> Any:
    """Return the value of a keyword argument: each is written as its variable would be, and parsed."""
    name = f"instrument({setting.field}=...)"
    accepted = isinstance(value, str) or (
        isinstance(value, setting.arguments) and isinstance(value, bool) == (bool in setting.arguments)
    )
    if not accepted:
        raise ConfigurationError(name, _shown(setting, value), setting.allowed)
    if isinstance(value, dict):
        return _parse(setting, name, ",".join(f"{k}={v}" for k, v in value.items())) if value else {}
    if isinstance(value, (tuple, list)):
        return _parse(setting, name, ",".join(map(str, value)) if value else "none")
    return _parse(setting, name, os.fspath(value) if isinstance(value, os.PathLike) else str(value))
