"""Alert rules and the dashboard provider in the form of Grafana's own provisioning files.

Grafana expands ``$NAME`` in these files, so a literal ``$`` is written twice. Each rule asks Prometheus for
the whole condition: what comes back fires, and nothing coming back is fine.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

SOURCE = "prometheus"
PROVIDER: dict[str, Any] = {
    "apiVersion": 1,
    "providers": [{
        "name": "lz-otel", "orgId": 1, "folder": "LLM", "type": "file", "updateIntervalSeconds": 30,
        "allowUiUpdates": False, "options": {"path": "/etc/grafana/dashboards/lz-otel"},
    }],
}  # fmt: skip
_ANY_NUMBER = "is_number($A) || is_nan($A) || is_inf($A)"
# `query` is not among the functions that Grafana's templates have.
_LOOKUP = re.compile(r"\{\{ with printf .*\| query \}\}.*\{\{ end \}\}\{\{ end \}\}")


def alerting(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an ``alerting`` provisioning file from groups of Prometheus alerts."""
    return {
        "apiVersion": 1,
        "groups": [
            {
                "orgId": 1,
                "name": group["name"],
                "folder": "LLM",
                "interval": group["interval"],
                "rules": [_rule(rule) for rule in group["rules"]],
            }
            for group in groups
        ],
    }


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    title = " ".join([rule["alert"], *(v for k, v in rule["labels"].items() if k in ("severity", "window"))])
    identity = hashlib.md5((title + rule["expr"]).encode(), usedforsecurity=False).hexdigest()
    wait = rule["for"] if rule["for"] != "0m" else "0s"
    kept = {"keepFiringFor": rule["keep_firing_for"]} if "keep_firing_for" in rule else {}
    return {
        "uid": identity,
        "title": f"{title} {identity[:4]}",
        "condition": "B",
        "data": [
            {
                "refId": "A",
                "relativeTimeRange": {"from": 600, "to": 0},
                "datasourceUid": SOURCE,
                "model": {"refId": "A", "instant": True, "range": False, "expr": _escaped(rule["expr"])},
            },
            {
                "refId": "B",
                "relativeTimeRange": {"from": 0, "to": 0},
                "datasourceUid": "__expr__",
                "model": {"refId": "B", "type": "math", "expression": _escaped(_ANY_NUMBER)},
            },
        ],
        "noDataState": "OK",
        "execErrState": "Error",
        "for": wait,
        **kept,
        "labels": rule["labels"],
        "annotations": {key: _annotation(text) for key, text in rule["annotations"].items()},
    }


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _annotation(text: str) -> str:
    return _escaped(_LOOKUP.sub("", text).replace("$value", "$values.A.Value"))
