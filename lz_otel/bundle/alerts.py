"""All alerts, and their form in a rule file.

Where they depart from the study they started from (and why):

* Windows beyond an hour read recorded rates, so that a hundred processes cost no more than one.
* The slow fast path is judged by mechanism: 25 ms and 2 s have no common limit.
* The vendor's gauges have an alert each, so that description and runbook can name value and threshold.
* One foreign entity in an answer makes a ticket at once; several page.
* Quality is compared by score: mixing two scores compares their mixture.
* Fallbacks of inference calls are held against inference attempts only, embeddings are left out.
* New: pruned share, untagged context, wrong intent header, overloaded provider, unread cache writes,
  unpriced model, hourly budget.
* The overflow alert reads lz_otel's own counter, not the label of an exporter that is not in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lz_otel.bundle import (
    _alerts_calls,
    _alerts_families,
    _alerts_fast_path,
    _alerts_limits,
    _alerts_money,
    _alerts_scheduling,
    _alerts_self,
)
from lz_otel.bundle._alert import SEVERITIES, Alert, AlertCondition, Kit
from lz_otel.bundle._labels import VARIABLES
from lz_otel.bundle.config import dashboard_uid
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from lz_otel.bundle.config import Config

__all__ = ["GROUPS", "SEVERITIES", "Alert", "AlertCondition", "alerts", "dashboard_url", "groups", "rule"]

GROUPS = {
    "lz-otel-calls": (_alerts_calls,),
    "lz-otel-limits": (_alerts_limits,),
    "lz-otel-fast-path-alerts": (_alerts_fast_path, _alerts_scheduling),
    "lz-otel-families": (_alerts_families,),
    "lz-otel-money-alerts": (_alerts_money,),
    "lz-otel-self": (_alerts_self,),
}


def groups(config: Config) -> dict[str, list[Alert]]:
    """Return the alerts by group of rules, without those that are switched off.

    Raises:
        ConfigurationError: ``disabled_alerts`` names an alert that does not exist.
    """
    kit = Kit(config)
    every = {name: [make(kit) for part in parts for make in part.ALERTS] for name, parts in GROUPS.items()}
    known = {alert.name for group in every.values() for alert in group}
    for name in config.disabled_alerts:
        if name not in known:
            raise ConfigurationError("disabled_alerts", name, f"names among {', '.join(sorted(known))}")
    return {
        name: [alert for alert in group if alert.name not in config.disabled_alerts]
        for name, group in every.items()
    }


def alerts(config: Config) -> list[Alert]:
    """Return all alerts in force."""
    return [alert for group in groups(config).values() for alert in group]


def dashboard_url(config: Config, alert: Alert, condition: AlertCondition) -> str:
    """Return the address of the alert's dashboard, with its variables set from the alert's labels.

    The time range is left to the notification, which knows when the alert began.
    """
    # A rule's own labels are not among $labels when its annotations are made.
    values = {label: f"{{{{ $labels.{label} | urlquery }}}}" for label in condition.expr.labels} | dict(
        condition.labels
    )
    variables = VARIABLES | ({"mechanism": "mechanism"} if alert.dashboard == "families" else {})
    chosen = [f"var-{variable}={values[label]}" for variable, label in variables.items() if label in values]
    return f"{config.urls.grafana}/d/{dashboard_uid(alert.dashboard)}?" + "&".join(chosen or ["orgId=1"])


def rule(config: Config, alert: Alert, condition: AlertCondition) -> dict[str, Any]:
    """Return one condition as an entry of a rule file."""
    entry: dict[str, Any] = {
        "alert": alert.name,
        "expr": condition.expr.text,
        "for": config.time(condition.wait),
    }
    if condition.keep:
        entry["keep_firing_for"] = config.time(condition.keep)
    entry["labels"] = {"severity": condition.severity, **dict(condition.labels), **config.alert_labels}
    entry["annotations"] = {
        "summary": alert.summary,
        "description": condition.description or alert.description,
        "runbook_url": config.urls.runbook.format(alert=alert.name),
        "dashboard_url": dashboard_url(config, alert, condition),
    }
    return entry
