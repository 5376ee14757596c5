"""Layer Zero families: what each mechanism of the articles does, and whether it is in its healthy range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle._labels import FAMILIES, MODEL, ROUTE
from lz_otel.bundle.dashboards import style
from lz_otel.bundle.dashboards.board import Board, label_values
from lz_otel.bundle.dashboards.family_details import details
from lz_otel.bundle.dashboards.panels import Query, lines, verdicts
from lz_otel.bundle.dashboards.queries import Queries
from lz_otel.bundle.promql import (
    Builder,
    Var,
)

if TYPE_CHECKING:
    from lz_otel.bundle.config import Config

THIRD, QUARTER, LOW = (8, 7), (6, 7), (8, 6)
OFF = "not seen"


def build(config: Config) -> Board:
    """Return the dashboard."""
    t = config.thresholds
    q = Queries(config)
    chosen, one = Var("mechanism"), Var("mechanism", exact=True)
    job = Builder({"job": Var("job")})
    board = Board(
        "families",
        "Layer Zero families",
        (
            "What each family does, and whether it is in its healthy range. Rows of families that are off "
            "stay empty."
        ),
        hours=6,
        extra=[
            label_values(
                "mechanism",
                "mechanism",
                job.counter(c.FAST_PATH_CALLS).text,
                title="family",
                everything="|".join(FAMILIES),
                regex=f"/^({'|'.join(FAMILIES)})$/",
            )
        ],
    )
    board.row("All families that are on",
        lines("Hit rate of eligible calls",
            "Hits / (hits + misses + fallbacks); what opted out is left out. The line is the alert of "
            "symbolic.",
            Query(q.hit("mechanism", mechanism=chosen), "{{mechanism}}"),
            unit="percentunit", size=THIRD, axis=(0, 1), limits=style.target_line(t.hit_rate_low),
            interval="5m", colours=style.of(style.MECHANISMS, FAMILIES),
            empty="no family seen in this range"),
        lines("Of those that asked, how many got it?",
            "Hits / (hits + fallbacks): is the request honoured? Misses did not ask.",
            Query(q.got("mechanism", mechanism=chosen), "{{mechanism}}"),
            unit="percentunit", size=THIRD, axis=(0, 1),
            limits=style.target_line(1 - t.zeroing_fallback_high), interval="5m",
            colours=style.of(style.MECHANISMS, FAMILIES), empty="no family seen in this range"),
        lines("Fallbacks per minute by reason",
            "A closed list of reasons; those that do not occur are left out.",
            Query(q.per_minute(c.FAST_PATH_FALLBACKS, "mechanism", "reason", mechanism=chosen).above(0),
                "{{mechanism}}: {{reason}}"),
            unit="cpm", size=THIRD, stacked=True, limits=style.target_line(t.fallbacks_per_minute),
            patterns={f"^{name}:": style.MECHANISMS[name] for name in FAMILIES}, empty="nothing fell back"),
    )  # fmt: skip
    board.row("$mechanism",
        verdicts("Verdicts", "One verdict per call on which this mechanism had something to say.",
            q.per_second(c.FAST_PATH_CALLS, "verdict", mechanism=one),
            size=LOW, empty="no verdicts"),
        lines("Hit rate by route", "The six best routes; use the route filter for others.",
            Query(q.hit(ROUTE, mechanism=one).topk(6), "{{lz_route}}"),
            unit="percentunit", size=LOW, axis=(0, 1), interval="5m", empty="no verdicts"),
        lines("Saved per hour by model",
            "What this mechanism saves at list price. Empty: it saves time, or its price is not known.",
            Query(q.per_hour(c.SAVED_USD, MODEL, mechanism=one).above(0), "{{gen_ai_request_model}}"),
            unit="currencyUSD", size=LOW, stacked=True, empty="saves no money by itself"), repeat="mechanism",
    )  # fmt: skip
    for title, tiles in details(q):
        board.row(title, *tiles, collapsed=True)
    return board
