"""What an alert is, and the tools its definition is made with.

Severity follows one rule:

* ``critical`` pages a person now: users get errors or another user's data, or money or access is gone,
  and no retry helps.
* ``warning`` makes a ticket for office hours: slower, dearer or less sure than promised, until something
  is changed.
* ``info`` goes nowhere but to the dashboards: a hint that explains another alert or asks for tuning.
* ``none`` is for the watchdog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lz_otel import catalogue as c
from lz_otel.bundle._labels import FAILED_ENDINGS
from lz_otel.bundle.promql import Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lz_otel.bundle.config import Config
    from lz_otel.bundle.promql import Expr, Recorded, Value

SEVERITIES = ("critical", "warning", "info", "none")
# One step of a diagnosis: what to find out, and the query that tells.
DiagnosisStep: TypeAlias = "tuple[str, Expr]"


class AlertCondition(NamedTuple):
    """When an alert fires. Durations are nominal; the configuration scales them.

    Attributes:
        severity: one of ``SEVERITIES``.
        expr: fires for each series that it returns.
        wait: ``for``: how long it must have been true.
        keep: ``keep_firing_for``: how long it goes on when it is no longer true; empty: not at all.
        labels: static labels to add.
        description: in place of the alert's own.
    """

    severity: str
    expr: Expr
    wait: str
    keep: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    description: str = ""


class Mute(NamedTuple):
    """What mutes an alert: another one that fires for the same job and says the same and more.

    Attributes:
        alert: name of the alert that mutes.
        equal: labels, besides ``job``, in which the two must agree.
        where: labels that the muting alert must have.
    """

    alert: str
    equal: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()


BURNING = Mute("LLMErrorBudgetBurn", where=(("severity", "critical"),))
PROVIDER_FAILING = Mute("LLMProviderFailing")


def layer_gone(mechanism: str = "") -> Mute:
    """Return what mutes while a mechanism serves nothing: this one, or the one that the muted alert names."""
    if mechanism:
        return Mute("LLMFastPathGone", where=(("mechanism", mechanism),))
    return Mute("LLMFastPathGone", ("mechanism",))


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert with its runbook.

    Attributes:
        name: CamelCase, ``LLM`` first.
        kind: ``symptom`` (a user or payer feels it) or ``cause`` (a cause or an early sign).
        summary: one sentence, always the same.
        description: a template with the labels, the value and the threshold.
        conditions: when it fires; several for several severities or windows, none for an alert that is off
            until something is configured: it has a runbook and no rule.
        dashboard: short name of the dashboard to open.
        meaning, impact: for the runbook.
        guard: what would make it noisy, and what is done against it.
        diagnosis: queries for the runbook.
        mitigation: numbered steps.
        muted_by: alerts while which Alertmanager mutes this one.
        source: where the threshold comes from, with its mark.
    """

    name: str
    kind: str
    summary: str
    description: str = ""
    conditions: tuple[AlertCondition, ...]
    dashboard: str
    meaning: str
    impact: str
    guard: str
    diagnosis: tuple[DiagnosisStep, ...]
    mitigation: tuple[str, ...]
    source: str
    muted_by: tuple[Mute, ...] = ()


def percent(share: float) -> str:
    """Return a share as people read it: ``97.5 %``."""
    return f"{share * 100:.6g} %"


def plain(value: float) -> str:
    """Return a number without noise."""
    return f"{value:.6g}"


class Kit:
    """The configuration and its builder, with the few shapes that alerts are made of."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.b = config.builder()
        self.t = config.thresholds
        self.g = config.guards
        self.by = config.by

    def w(self, nominal: str) -> str:
        """Return the window in force."""
        return self.config.time(nominal)

    def rate(self, events: Range | c.Metric, window: str, *by: str, **where: Value) -> Expr:
        """Return the events per second by job and more labels; a histogram stands for its samples."""
        return self._range(events, where).rate(self.w(window)).sum(*self.by, *by)

    def grown(self, events: Range | c.Metric, window: str, *by: str, **where: Value) -> Expr:
        """Return the number of events in the window by job and more labels, as :meth:`rate` takes them."""
        return self._range(events, where).increase(self.w(window)).sum(*self.by, *by)

    def _range(self, events: Range | c.Metric, where: Mapping[str, Value]) -> Range:
        if isinstance(events, Range):
            return events
        return (self.b.counter if events.kind == c.COUNTER else self.b.count)(events, **where)

    def quantile(self, q: float, metric: c.Metric, window: str, *by: str, **where: Value) -> Expr:
        """Return a quantile of a histogram by these labels."""
        return self.b.quantile(q, metric, self.w(window), by, "", **where)

    def mean(self, metric: c.Metric, window: str, *by: str, **where: Value) -> Expr:
        """Return the mean of a histogram by these labels."""
        return self.b.mean(metric, self.w(window), by, "", **where)

    def recorded_sum(self, series: Recorded, window: str, *by: str, **where: str) -> Expr:
        """Return what a recorded rate adds up to over a window: cheap for long windows and many processes."""
        total = self.b.recorded(series, **where).over_time("sum_over_time", self.w(window))
        return total.sum(*self.by, *by) * self.config.interval_seconds

    def guarded(self, condition: Expr, *enough: Expr, on: tuple[str, ...] = ()) -> Expr:
        """Return the condition, where there is enough to judge by."""
        for one in enough:
            condition = condition.and_(one, on=(*self.by, *on))
        return condition

    def chats(self, metric: c.Metric = c.ATTEMPTS, **where: str | tuple[str, ...]) -> Range:
        """Return a counter over the operations that are text inference, as the duration metric counts."""
        return self.b.counter(
            metric, gen_ai_operation_name=("chat", "generate_content", "text_completion"), **where
        )

    def attempts_per_call(self, window: str) -> Expr:
        """Return attempts per inference call, by provider; embeddings have attempts, but no such call."""
        provider = "gen_ai_provider_name"
        calls = self.rate(c.INFERENCE_DURATION, window, provider)
        return self.rate(self.chats(), window, provider).op("/", calls.above(0))


def by_error(kit: Kit) -> DiagnosisStep:
    """Return the first step of many diagnoses."""
    labels = ("gen_ai_provider_name", "gen_ai_request_model", "error_type")
    rate = kit.rate(c.INFERENCE_DURATION, "5m", *labels, lz_ending=FAILED_ENDINGS)
    return ("Which error, from whom, for which model?", rate.topk(10))


def by_status(kit: Kit) -> DiagnosisStep:
    """Return the second step of many diagnoses."""
    rate = kit.rate(c.ATTEMPTS, "5m", "gen_ai_provider_name", "status")
    return ("What do the attempts come back with?", rate)
