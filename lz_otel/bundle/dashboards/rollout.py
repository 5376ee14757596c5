"""Roll-out: may the next stage start?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle._labels import ELIGIBLE, ROUTE, SERVING
from lz_otel.bundle.dashboards import recorded as r
from lz_otel.bundle.dashboards import style
from lz_otel.bundle.dashboards.board import Board, choice, label_values, text_box
from lz_otel.bundle.dashboards.panels import Query, lines, stat
from lz_otel.bundle.dashboards.queries import RANGE, Queries
from lz_otel.bundle.promql import DASHBOARD_SCOPE, Builder, Expr, Not, Var, ratio, vector

if TYPE_CHECKING:
    from lz_otel.bundle.config import Config

THIRD = (8, 7)
NO_EVIDENCE = -1
STATES = {1: ("go", "dark-green"), 0: ("stop", "dark-red"), NO_EVIDENCE: ("no evidence", "#5a5a66")}


def build(config: Config) -> Board:
    """Return the dashboard."""
    q = Queries(config)
    job = Builder({"job": Var("job")})
    board = Board(
        "rollout",
        "Roll-out",
        "May the next stage start? Filter to one route: the right ratio differs from one to the next.",
        extra=[
            label_values(
                "metric", "metric", job.count(c.QUALITY).text, title="score", everything="", multi=False
            ),
            label_values("group", "lz_group", job.count(c.QUALITY).text, title="group", everything=".+"),
            text_box("control", "control group", config.control_group),
            choice("before", "compare with", "1h", "6h", "1d", "7d"),
        ],
    )
    _gate_row(board, q)
    _quality(board, q)
    _effect(board, q)
    _versions(board, q)
    return board


def _gate_row(board: Board, q: Queries) -> None:
    scored = Queries(q.config, {**DASHBOARD_SCOPE, "metric": Var("metric", exact=True)})
    group, control = Var("group"), Var("control", exact=True)
    board.row("May the next stage start?",
        stat("Gates",
            "All green over the range: the next stage may start (002). Too few samples are no evidence, "
            "never green.",
            *(Query(expr.or_(vector(NO_EVIDENCE)), name) for name, expr in _gates(q, scored, group, control)),
            unit="none", size=(24, 4), empty="no evidence", background=True,
            steps=((None, "#5a5a66"), (0, "dark-red"), (1, "dark-green")),
            values=STATES),
    )  # fmt: skip


def _quality(board: Board, q: Queries) -> None:
    t = q.config.thresholds
    scored = Queries(q.config, {**DASHBOARD_SCOPE, "metric": Var("metric", exact=True)})
    control = Var("control", exact=True)
    others = scored.quality("lz_group", lz_group=Not(control))
    against = others.op("/", scored.quality(lz_group=control), on=(), group_left=())
    worst = scored.b.quantile(0.1, c.QUALITY, "30m", ("lz_group",))
    quiet = {q.config.control_group: style.QUIET}
    board.row("Quality",
        lines("Mean quality by group", "Sum of scores / number of scores, over 30 minutes.",
            Query(scored.quality("lz_group"), "{{lz_group}}"),
            unit="none", size=(10, 8), axis=(None, 1), decimals=3, colours=quiet,
            empty="no quality reported"),
        lines("Against control",
            f"Mean of the group / mean of control; below {t.effectiveness_low:g} the alert fires.",
            Query(against, "{{lz_group}}"),
            unit="none", size=(7, 8), axis=(0.94, 1.02), decimals=3,
            limits=style.target_line(t.effectiveness_low, t.effectiveness_tune), empty="no control group"),
        lines("Worst tenth", "p10 of the scores: a mean hides a few ruined answers.",
            Query(worst, "{{lz_group}}"),
            unit="none", size=(7, 8), axis=(None, 1), decimals=3, colours=quiet, empty="no quality reported"),
    )  # fmt: skip


def _effect(board: Board, q: Queries) -> None:
    t = q.config.thresholds
    now, before = {"window": "1h"}, {"window": "1h", "offset": "$before"}

    def p95(window: str, offset: str = "") -> Expr:
        return q.recorded_quantile(0.95, r.DURATION, "lz_path", window=window, offset=offset)

    def money(window: str, offset: str = "") -> Expr:
        cost = q.per_second(c.COST_USD, window=window, offset=offset)
        return cost / q.calls(window=window, offset=offset, lz_ending="ok").above(0)

    board.row("Effect",
        lines("p95 against before", "p95 now / p95 the chosen time ago, per path: 70 % means a fall by 30 %.",
            Query(p95(**now) / p95(**before), "{{lz_path}}"),
            unit="percentunit", size=THIRD, limits=style.target_line(1), empty="no calls then or now",
            colours={"fast": style.FAST, "full": style.FULL}),
        lines("Hit rate by route", "Roll out route by route: the ratio differs from one to the next.",
            Query(q.hit(ROUTE, mechanism=SERVING).topk(8), "{{lz_route}}"),
            unit="percentunit", size=THIRD, axis=(0, 1), limits=style.target_line(t.hit_rate_low),
            interval="5m", empty="no family seen"),
        lines("Cost per call against before", "Money per answered call, now / the chosen time ago.",
            Query(money(**now) / money(**before), "now / before", style.FULL),
            unit="percentunit", size=THIRD, limits=style.target_line(1), empty="no calls then or now"),
    )  # fmt: skip


def _versions(board: Board, q: Queries) -> None:
    builds = Builder({"job": Var("job"), "instance": Var("instance")}).gauge(c.BUILD_INFO)
    board.row("What runs where?",
        lines("Processes by version",
            "Versions of lz_otel; a change is also an annotation on every dashboard.",
            Query(builds.count("version"), "{{version}}"),
            unit="short", size=(24, 5), stacked=True, decimals=0, empty="no process reports"),
    )  # fmt: skip


def _gates(q: Queries, scored: Queries, group: Var, control: Var) -> list[tuple[str, Expr]]:
    """Return each gate with its name: 1 may go on, 0 stop, nothing where there is too little to judge by."""
    t, guards = q.config.thresholds, q.config.guards
    broken = ratio(q.over(c.ATTEMPTS, status=("500", "502", "503", "504", "529", "5xx")), q.over(c.ATTEMPTS))
    enough = q.over(c.ATTEMPTS).above(guards.hits_before)
    fast = {"lz_ending": "ok", "lz_path": "fast"}
    quick = q.b.quantile(0.95, c.INFERENCE_DURATION, RANGE, **fast).below(t.rollout_p95_seconds, as_bool=True)
    repeats = q.over(c.INTENT_REPEATS, intent="deterministic")
    same = q.over(c.INTENT_REPEATS, intent="deterministic", result="same")
    eligible = q.over(c.FAST_PATH_CALLS, mechanism=SERVING, verdict=ELIGIBLE)

    def mean(who: Var) -> Expr:
        total = scored.b.total(c.QUALITY, lz_group=who).increase(RANGE).sum()
        return total / scored.b.count(c.QUALITY, lz_group=who).increase(RANGE).sum().above(
            guards.quality_scores
        )

    scheduled = q.over(c.FAST_PATH_CALLS, mechanism="scheduling")
    ghosts = q.over(c.GHOST_ENTITIES).or_(0 * scheduled)
    return [
        (f"5xx < {t.rollout_errors:.0%}", broken.below(t.rollout_errors, as_bool=True).and_(enough)),
        (
            f"fast p95 < {t.rollout_p95_seconds * 1000:g} ms",
            quick.and_(q.calls_over(**fast).above(guards.hits_before)),
        ),
        (
            f"hit rate > {t.hit_rate_low:.0%}",
            q.hit(window=RANGE, mechanism=SERVING)
            .above(t.hit_rate_low, as_bool=True)
            .and_(eligible.above(guards.hits_before)),
        ),
        (
            f"same answer > {t.consistency_low:.1%}",
            ratio(same, repeats).above(t.consistency_low, as_bool=True).and_(repeats.above(1000)),
        ),
        (
            f"quality > {t.effectiveness_tune:.0%} of control",
            mean(group).op("/", mean(control)).above(t.effectiveness_tune, as_bool=True),
        ),
        ("no ghost entities", ghosts.below(1, as_bool=True).and_(scheduled.above(0))),
    ]
