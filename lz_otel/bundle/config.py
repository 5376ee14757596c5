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

import hashlib
import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from lz_otel._ground import toml
from lz_otel.bundle._thresholds import Guards, Thresholds, amount, meta
from lz_otel.bundle.promql import Builder, Regex, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = [
    "DASHBOARD_FILES", "BurnWindow", "Config", "Guards", "Slo", "Thresholds", "Time", "Urls",
    "burn_windows", "dashboard_uid", "load", "parse", "settings",
]  # fmt: skip

# Dashboards by their short name; the uid is the md5 of the file name and must never change.
_DASHBOARDS = ("overview", "families", "caches", "cost", "reliability", "rollout", "internals")
DASHBOARD_FILES = {name: f"lz-otel-{name}.json" for name in _DASHBOARDS}


def dashboard_uid(name: str) -> str:
    """Return the fixed uid of the dashboard with that short name: the md5 of its file name."""
    return hashlib.md5(DASHBOARD_FILES[name].encode(), usedforsecurity=False).hexdigest()


Duration = Annotated[
    str, msgspec.Meta(pattern=r"^(\d+(ms|[smhdw]))+\Z", extra={"allowed": "a duration such as 15s"})
]
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def seconds(duration: str) -> float:
    """Return the seconds of a PromQL duration such as ``1h30m``."""
    return sum(int(n) * _UNITS[unit] for n, unit in re.findall(r"(\d+)(ms|[smhdw])", duration))


def duration(value: float) -> str:
    """Return the shortest PromQL duration of so many seconds, to the millisecond."""
    rest = round(value * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if rest >= size and rest % size == 0:
            return f"{rest // size}{unit}"
    return f"{rest}ms"


class Time(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Windows and waiting times of rules."""

    scale: Annotated[
        float, amount("factor on every window, `for` and interval of the rules", low=0.0001, high=100.0)
    ] = 1.0
    shortest: Annotated[
        Duration, meta("no window gets shorter than this by the scale (tests: 3 scrapes)")
    ] = "1ms"
    windows: Annotated[dict[str, Duration], meta('other length for one window or `for`: "5m" = "10s"')] = {}
    rule_interval: Annotated[Duration, meta("how often the rules are evaluated")] = "1m"

    def __call__(self, nominal: str) -> str:
        """Return the length in force of a window that is nominally so long (``0m`` stays 0)."""
        if nominal in self.windows:
            return self.windows[nominal]
        if self.scale == 1.0 or not seconds(nominal):
            return nominal
        return duration(max(seconds(nominal) * self.scale, seconds(self.shortest)))


class Slo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The service-level objective: the share of finished calls that end ok."""

    objective: Annotated[float, amount("share of finished calls that end ok", low=0.5, high=0.99999)] = 0.995
    period: Annotated[Duration, meta("the period of the error budget")] = "30d"
    harmless_errors: Annotated[
        tuple[str, ...],
        meta("values of error_type that do not eat the budget, such as a user's own bad request"),
    ] = ()

    @property
    def allowed(self) -> float:
        """Return the share of calls that may fail."""
        return round(1.0 - self.objective, 10)


class Urls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the links of alerts lead."""

    # fmt: off
    runbook: Annotated[str, meta("address of a runbook; {alert} is its name", pattern=r"\{alert\}",
        allowed="an address with {alert} in it")
    ] = "https://github.com/lz-otel/lz-otel/blob/main/alerts/runbooks/{alert}.md"
    grafana: Annotated[str, meta("address of Grafana, without the last slash", pattern=r"^https?://.*[^/]\Z",
        allowed="an http(s) address without the last slash")] = "http://localhost:3000"
    # fmt: on


Label = Annotated[
    str, msgspec.Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*\Z", extra={"allowed": "a name of a label"})
]
AlertName = Annotated[str, msgspec.Meta(pattern=r"^LLM\w+\Z", extra={"allowed": "a name of an alert"})]


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that users can set. See the module text for the file format."""

    selectors: Annotated[
        dict[str, str], meta("label = value for every query of the rules; ~value is a regex")
    ] = {}
    extra_labels: Annotated[
        tuple[Label, ...], meta("labels of the set-up to keep in every rule, such as cluster")
    ] = ()
    alert_labels: Annotated[dict[str, str], meta("labels to add to every alert, such as team")] = {}
    disabled_alerts: Annotated[tuple[AlertName, ...], meta("names of alerts to leave out")] = ()
    batch_jobs: Annotated[
        tuple[str, ...], meta("jobs that end by themselves: their silence is no alert")
    ] = ()
    budget_usd_per_day: Annotated[
        float, amount("daily budget of one job; 0: none is set, and no alert on it")
    ] = 0.0
    budget_usd_per_hour: Annotated[
        float, amount("most that one job may spend in an hour; 0: no such limit, and no alert on it")
    ] = 0.0
    control_group: Annotated[str, meta("name of the group that is compared against")] = "control"
    pruned_group: Annotated[str, meta("name of the group with pruning")] = "pruned"
    slo: Slo = Slo()
    thresholds: Thresholds = Thresholds()
    guards: Guards = Guards()
    time: Time = Time()
    urls: Urls = Urls()

    def builder(self) -> Builder:
        """Return a builder for rules: the configured selectors, no Grafana variables."""
        scope: dict[str, Value] = {
            label: Regex(value[1:]) if value.startswith("~") else value
            for label, value in self.selectors.items()
        }
        return Builder(scope, self.extra_labels)

    @property
    def interval_seconds(self) -> float:
        """Return the seconds between two evaluations of the rules, as scaled."""
        return seconds(self.time(self.time.rule_interval))

    @property
    def by(self) -> tuple[str, ...]:
        """Return the labels every rule keeps: job and the configured ones."""
        return ("job", *self.extra_labels)


class BurnWindow(NamedTuple):
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
    """Return the pairs of windows, with their factors for this period."""
    period = seconds(slo.period)
    return tuple(BurnWindow(*row, round(row[0] * period / seconds(row[1]), 6)) for row in _BURN)


def load(path: Path) -> Config:
    """Read a TOML file.

    Raises:
        ConfigurationError: the file cannot be read, or a key or value in it cannot be used.
    """
    return toml.load(path, Config, name="--config")


def parse(data: Mapping[str, Any]) -> Config:
    """Return the configuration from parsed TOML.

    Raises:
        ConfigurationError: naming the key, its value and what is allowed.
    """
    return toml.convert(data, Config)


def settings(kind: type[msgspec.Struct] = Config, prefix: str = "") -> Iterator[tuple[str, Any, str, str]]:
    """Yield all settings as (key, default, mark, meaning), for the documentation."""
    for setting in msgspec.structs.fields(kind):
        if isinstance(setting.type, type) and issubclass(setting.type, msgspec.Struct):
            yield from settings(setting.type, f"{prefix}{setting.name}.")
            continue
        default = setting.default if setting.default is not msgspec.NODEFAULT else setting.default_factory()
        (words,) = (m for m in setting.type.__metadata__ if m.description)
        yield prefix + setting.name, default, words.extra["mark"], words.description
