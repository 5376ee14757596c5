"""Configuration of the bundle: every number once, with its source.

Dashboards, rules, alerts and runbooks read their numbers here and nowhere else, so a threshold, the
colour of a panel and the text of a runbook cannot disagree. Users override any of it with a TOML file of
the same shape::

    [selectors]
    environment = "prod"          # "~api-.*" for a regular expression

    [slo]
    objective = 0.99

    [thresholds]
    hit_rate_low = 0.6

    [time]
    scale = 0.02                  # all windows and `for`s fifty times shorter: for tests

Sources: **A** an article (000-004), **C** chosen by lz-otel, **D** documented elsewhere (the SRE workbook).
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import tomllib
import types
import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lz_otel.bundle._numbers import Guards, Thresholds, number
from lz_otel.bundle.promql import Builder, Regex, Value
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = [
    "DASHBOARD_FILES",
    "BurnWindow",
    "Config",
    "Guards",
    "Slo",
    "Thresholds",
    "Time",
    "Urls",
    "burn_windows",
    "dashboard_uid",
    "load",
    "parse",
    "settings",
]

# Dashboards by their short name; the uid is the md5 of the file name and must never change.
DASHBOARD_FILES = {
    "overview": "lz-otel-overview.json",
    "families": "lz-otel-families.json",
    "caches": "lz-otel-caches.json",
    "cost": "lz-otel-cost.json",
    "reliability": "lz-otel-reliability.json",
    "rollout": "lz-otel-rollout.json",
    "internals": "lz-otel-internals.json",
}


def dashboard_uid(name: str) -> str:
    """Fixed uid of the dashboard with that short name: the md5 of its file name."""
    return hashlib.md5(DASHBOARD_FILES[name].encode(), usedforsecurity=False).hexdigest()


def _plain(default: Any, doc: str, pattern: str = "", allowed: str = "") -> Any:
    return field(default=default, metadata=_meta(doc, pattern, allowed))


def _meta(doc: str, pattern: str = "", allowed: str = "") -> dict[str, str]:
    return {"mark": "C", "doc": doc, "pattern": pattern, "allowed": allowed}


_DURATION = r"(\d+(ms|[smhdw]))+"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def seconds(duration: str) -> float:
    """Seconds of a PromQL duration such as ``1h30m``."""
    return sum(int(n) * _UNITS[unit] for n, unit in re.findall(r"(\d+)(ms|[smhdw])", duration))


def duration(value: float) -> str:
    """The shortest PromQL duration of so many seconds, to the millisecond."""
    rest = round(value * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if rest >= size and rest % size == 0:
            return f"{rest // size}{unit}"
    return f"{rest}ms"


@dataclass(frozen=True)
class Time:
    """Windows and waiting times of rules."""

    scale: float = number(1.0, "C", "factor on every window, `for` and interval of the rules", 0.0001, 100.0)
    shortest: str = _plain(
        "1ms",
        "no window gets shorter than this by the scale (tests: 3 scrapes)",
        _DURATION,
        "a duration such as 15s",
    )
    windows: dict[str, str] = field(
        default_factory=dict,
        metadata=_meta(
            'other length for one window or `for`: "5m" = "10s"', _DURATION, "a duration such as 10s"
        ),
    )
    rule_interval: str = _plain("1m", "how often the rules are evaluated", _DURATION, "a duration such as 1m")

    def __call__(self, nominal: str) -> str:
        """The length in force of a window that is nominally so long (``0m`` stays 0)."""
        if nominal in self.windows:
            return self.windows[nominal]
        if self.scale == 1.0 or not seconds(nominal):
            return nominal
        return duration(max(seconds(nominal) * self.scale, seconds(self.shortest)))


@dataclass(frozen=True)
class Slo:
    """The service-level objective: the share of finished calls that end ok."""

    objective: float = field(
        default=0.995,
        metadata={"mark": "C", "doc": "share of finished calls that end ok", "low": 0.5, "high": 0.99999},
    )
    period: str = _plain("30d", "the period of the error budget", _DURATION, "a duration such as 30d")
    harmless_errors: tuple[str, ...] = _plain(
        (), "values of error_type that do not eat the budget, such as a user's own bad request"
    )

    @property
    def allowed(self) -> float:
        """Share of calls that may fail."""
        return round(1.0 - self.objective, 10)


@dataclass(frozen=True)
class Urls:
    """Where the links of alerts lead."""

    runbook: str = _plain(
        "https://github.com/lz-otel/lz-otel/blob/main/alerts/runbooks/{alert}.md",
        "address of a runbook; {alert} is its name",
        r".*\{alert\}.*",
        "an address with {alert} in it",
    )
    grafana: str = _plain(
        "http://localhost:3000",
        "address of Grafana, without the last slash",
        r"https?://.*[^/]",
        "an http(s) address without the last slash",
    )


@dataclass(frozen=True)
class Config:
    """Everything that users can set. See the module text for the file format."""

    selectors: dict[str, str] = field(
        default_factory=dict, metadata=_meta("label = value for every query of the rules; ~value is a regex")
    )
    extra_labels: tuple[str, ...] = _plain(
        (),
        "labels of the set-up to keep in every rule, such as cluster",
        r"[a-zA-Z_][a-zA-Z0-9_]*",
        "names of labels",
    )
    alert_labels: dict[str, str] = field(
        default_factory=dict, metadata=_meta("labels to add to every alert, such as team")
    )
    disabled_alerts: tuple[str, ...] = _plain(
        (), "names of alerts to leave out", r"LLM\w+", "names of alerts"
    )
    batch_jobs: tuple[str, ...] = _plain((), "jobs that end by themselves: their silence is no alert")
    budget_usd_per_day: float = number(
        0.0, "C", "daily budget of one job; 0: none is set, and no alert on it"
    )
    budget_usd_per_hour: float = number(
        0.0, "C", "most that one job may spend in an hour; 0: no such limit, and no alert on it"
    )
    control_group: str = _plain("control", "name of the group that is compared against")
    pruned_group: str = _plain("pruned", "name of the group with pruning")
    slo: Slo = field(default_factory=Slo)
    thresholds: Thresholds = field(default_factory=Thresholds)
    guards: Guards = field(default_factory=Guards)
    time: Time = field(default_factory=Time)
    urls: Urls = field(default_factory=Urls)

    def builder(self) -> Builder:
        """A builder for rules: the configured selectors, no Grafana variables."""
        scope: dict[str, Value] = {
            label: Regex(value[1:]) if value.startswith("~") else value
            for label, value in self.selectors.items()
        }
        return Builder(scope, self.extra_labels)

    @property
    def interval_seconds(self) -> float:
        """Seconds between two evaluations of the rules, as scaled."""
        return seconds(self.time(self.time.rule_interval))

    @property
    def by(self) -> tuple[str, ...]:
        """The labels every rule keeps: job and the configured ones."""
        return ("job", *self.extra_labels)


@dataclass(frozen=True)
class BurnWindow:
    """One pair of windows of a burn-rate alert.

    Attributes:
        budget: share of the period's error budget that is used up in the long window when it fires.
        long: nominal length; the rate over it says that the matter is worth an alert.
        short: nominal length; the rate over it says that it is still going on.
        severity: ``critical`` or ``warning``.
        wait: the alert's ``for``.
        factor: computed; how many times faster than allowed the budget burns.
    """

    budget: float
    long: str
    short: str
    severity: str
    wait: str
    factor: float


# D: the SRE workbook, "Alerting on SLOs". Its critical pairs have no long `for`: the short window does that
# job, and with one an outage that is over would page anew.
_BURN = (
    (0.02, "1h", "5m", "critical", "2m"),
    (0.05, "6h", "30m", "critical", "2m"),
    (0.10, "1d", "2h", "warning", "1h"),
    (0.10, "3d", "6h", "warning", "3h"),
)


def burn_windows(slo: Slo) -> tuple[BurnWindow, ...]:
    """The pairs of windows, with their factors for this period."""
    return tuple(
        BurnWindow(
            budget, long, short, severity, wait, round(budget * seconds(slo.period) / seconds(long), 6)
        )
        for budget, long, short, severity, wait in _BURN
    )


# --- loading ----------------------------------------------------------------------------------

T = TypeVar("T")


def load(path: Path) -> Config:
    """Read a TOML file.

    Raises:
        ConfigurationError: the file cannot be read, or a key or value in it cannot be used.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError("--config", str(path), f"a readable TOML file ({error})") from error
    return parse(data)


def parse(data: Mapping[str, Any]) -> Config:
    """The configuration from parsed TOML.

    Raises:
        ConfigurationError: naming the key, its value and what is allowed.
    """
    config = _build(Config, data, "")
    for low, high in (
        ("pruned_share_low", "pruned_share_high"),
        ("params_ratio_low", "params_ratio_high"),
        ("effectiveness_low", "effectiveness_tune"),
        ("hit_rate_band_low", "hit_rate_band_high"),
    ):
        least, most = getattr(config.thresholds, low), getattr(config.thresholds, high)
        if least > most:
            raise ConfigurationError(f"thresholds.{low}", least, f"at most thresholds.{high} ({most})")
    return config


def _build(kind: type[T], data: Any, prefix: str) -> T:
    if not isinstance(data, dict):
        raise ConfigurationError(prefix.rstrip("."), data, "a table")
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # kind is a dataclass
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in known:
            raise ConfigurationError(prefix + key, value, f"one of the keys {', '.join(known)}")
        values[key] = _value(hints[key], value, known[key].metadata, prefix + key)
    return kind(**values)


def _value(hint: Any, value: Any, meta: Mapping[str, Any], name: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast("type[Any]", hint), value, name + ".")
    if hint is float:
        low, high = meta["low"], meta["high"]
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ConfigurationError(name, value, f"a number from {low:g} to {high:g}")
        return float(value)
    if hint is str:
        return _string(value, meta, name)
    if isinstance(hint, types.GenericAlias) and hint.__origin__ is tuple:
        if not isinstance(value, list):
            raise ConfigurationError(name, value, "a list of strings")
        return tuple(_string(item, meta, name) for item in value)
    if not isinstance(value, dict):
        raise ConfigurationError(name, value, "a table of strings")
    return {key: _string(item, meta, f"{name}.{key}") for key, item in value.items()}


def _string(value: Any, meta: Mapping[str, Any], name: str) -> str:
    if not isinstance(value, str) or (meta["pattern"] and not re.fullmatch(meta["pattern"], value)):
        raise ConfigurationError(name, value, meta["allowed"] or "a string")
    return value


def settings(kind: type = Config, prefix: str = "") -> Iterator[tuple[str, Any, str, str]]:
    """All settings as (key, default, mark, meaning), for the documentation."""
    hints = typing.get_type_hints(kind)
    default = kind()
    for item in dataclasses.fields(kind):
        value = getattr(default, item.name)
        if dataclasses.is_dataclass(hints[item.name]):
            yield from settings(hints[item.name], f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, value, item.metadata["mark"], item.metadata["doc"]
