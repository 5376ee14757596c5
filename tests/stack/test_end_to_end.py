"""From a provider's fault to somebody's phone: simulator, lz_otel, Prometheus, Alertmanager, sink;
all scenarios at once.

Every scenario is a job of its own: a process with a simulator, lz_otel and the demo's driver. One real
Prometheus scrapes them all, with the committed rules as a configuration with short windows renders them; one
real Alertmanager with the committed file tells the stack's own sink. A quarter of an hour is 27 seconds here,
and a call in this time weighs thirty times as much, so the guards against low traffic are lower in
proportion. No rule is edited.
"""

from __future__ import annotations

import collections
import contextlib
import time
import urllib.parse
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from lz_otel.bundle.config import parse
from lz_otel.lab.simulator import names
from tests.peers import need
from tests.stack.servers import ROOT, Notification, Sink, alertmanager, fleet, get, prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)

CONFIG = parse(
    {
        "time": {"scale": 0.03, "shortest": "8s", "windows": {"1m": "2s", "1h": "45s", "6h": "60s"}},
        # Times depend on the machine that runs the test, which may be busy: they are not what is tested here.
        "thresholds": {
            "symbolic_p95_seconds": 3,
            "fast_p95_seconds": 30,
            "calls_p95_seconds": 300,
            "first_token_p95_seconds": 30,
            "overhead_p99_seconds": 1,
        },
        "guards": {
            "calls": 10,
            "eligible_now": 1,
            "hits_before": 8,
            "zeroing_fallbacks": 0.9,
            "rate_limited": 8,
            "retries": 5,
            "quality_scores": 8,
            "original_tokens": 2000,
            "mask_events": 100,
            "zeroing_reports": 8,
            "provider_failures": 10,
            "unpriced_calls": 1,
            "cost_usd": 0.001,
            "cost_hours": 1,
            "failures": 6,
        },
    }
)
# The healthy service runs at least so long, and as long as the slowest of the others needs.
SHORTEST, LONGEST = 100.0, 300.0


class Expected(NamedTuple):
    """What a scenario ends in.

    Attributes:
        sent: alerts that somebody is told of, with the receivers.
        shown: alerts that fire and go nowhere: hints.
        muted: alerts that fire, and of which nobody hears since another one says more.
        may: alerts that may fire besides.
        rate: operations a second.
        clock: the simulator's seconds per second, which moves the moment at which things go wrong.
    """

    sent: Mapping[str, str] = MappingProxyType({})
    shown: tuple[str, ...] = ()
    muted: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    rate: float = 8.0
    clock: float = 1.0

    def receivers(self) -> dict[str, set[str]]:
        """Who hears of what."""
        return {alert: set(told.split()) for alert, told in self.sent.items()}


EXPECTED = {
    "healthy": Expected(),
    "hit-rate-drop": Expected({"LLMHitRateLow": "ticket"}, clock=1 / 6),
    "fallback-storm": Expected({"LLMFallbacksHigh": "ticket"}),
    "pruning-too-strong": Expected({"LLMPruningHurtsQuality": "ticket"}, muted=("LLMPrunedShareOutOfRange",)),
    # A call that is downgraded in silence is repeatable no more.
    "intent-header-mistake": Expected(
        {"LLMIntentWrongHeader": "ticket", "LLMFallbacksHigh": "ticket", "LLMAnswersNotRepeatable": "ticket"},
        may=("LLMFastPathGone",),  # one call in 25 has the right header
    ),
    "over-zeroing": Expected({"LLMZeroingMaskStuck": "ticket"}, shown=("LLMZeroingOutOfRange",)),
    "zeroing-fallback": Expected(
        {"LLMZeroingFallbackHigh": "ticket"},
        may=("LLMOtelUnreadableSignals",),
        rate=12.0,  # one call in a hundred
    ),
    "cache-share-leak": Expected(
        {
            "LLMGhostContext": "page ticket",
            "LLMVendorCacheHitLow": "ticket",
            "LLMVendorDecompressionSlow": "ticket",
            "LLMVendorAnchorInefficient": "ticket",
        }
    ),
    "layer-down": Expected(
        {"LLMFastPathGone": "ticket"},
        muted=(
            "LLMFallbacksHigh",
            "LLMZeroingFallbackHigh",
            "LLMHitRateLow",
            "LLMVendorCacheHitLow",
            "LLMVendorAnchorInefficient",
            "LLMAnswersNotRepeatable",
        ),
        rate=12.0,
        clock=1 / 8,
    ),
    "price-change": Expected({"LLMCostSpike": "ticket", "LLMUnpricedModel": "ticket"}, rate=10.0),
    # Which of the symptoms is told before the page mutes them is a matter of seconds.
    "provider-overloaded": Expected(
        {"LLMErrorBudgetBurn": "page"},
        rate=6.0,
        may=(
            "LLMProviderOverloaded",
            "LLMRetriesHigh",
            "LLMRateLimited",
            "LLMStreamsBroken",
            "LLMProviderFailing",
            "LLMCostIncomplete",
            "LLMFallbacksHigh",
            "LLMFastPathGone",
        ),
    ),
    "response-cache": Expected(rate=6.0),
}
# Scenarios that the test needs at another moment: an hour of the old price comes first.
CHANGED = {"price-change": ("later_after = 200", "later_after = 640")}


@dataclass
class Run:
    """What was seen."""

    began: float = 0.0
    ended: float = 0.0
    fired: dict[tuple[str, str], float] = field(
        default_factory=dict
    )  # (job, alert): seconds after the services began
    sent: dict[tuple[str, str, str], list[Notification]] = field(default_factory=dict)  # job, alert, receiver
    muted: dict[tuple[str, str], set[str]] = field(
        default_factory=lambda: collections.defaultdict(set)
    )  # by what
    chats: list[dict[str, Any]] = field(default_factory=list)
    checked_in: int = 0
    evaluation: float = 0.0  # seconds of the slowest group of rules

    def alerts(self, job: str) -> set[str]:
        """Names of the alerts that fired for a job."""
        return {alert for one, alert in self.fired if one == job}

    def told(self, job: str) -> dict[str, set[str]]:
        """Receivers of the notifications of each alert of a job."""
        out: dict[str, set[str]] = {}
        for one, alert, receiver in self.sent:
            if one == job:
                out.setdefault(alert, set()).add(receiver)
        return out

    def complete(self) -> bool:
        """Whether all that is expected has been seen."""
        return all(
            e.receivers().items() <= self.told(job).items()
            and {*e.sent, *e.shown, *e.muted} <= self.alerts(job)
            and all(self.muted[job, alert] for alert in e.muted)
            for job, e in EXPECTED.items()
        )

    def look(self, database: str, manager: str, sink: Sink) -> None:
        """Ask the servers how things are."""
        query = urllib.parse.urlencode({"query": 'ALERTS{alertstate="firing"}'})
        for one in get(f"{database}/api/v1/query?{query}")["data"]["result"]:
            job, alert = one["metric"].get("job", ""), one["metric"]["alertname"]
            self.fired.setdefault((job, alert), time.time() - self.began)
        alerts = get(f"{manager}/api/v2/alerts")
        by_print = {a["fingerprint"]: a["labels"]["alertname"] for a in alerts}
        for one in alerts:
            for source in one["status"]["inhibitedBy"]:
                self.muted[one["labels"].get("job", ""), one["labels"]["alertname"]].add(by_print[source])
        self.sent = {}
        for note in tuple(sink.notifications):
            for one in note.body["alerts"]:
                key = one["labels"].get("job", ""), one["labels"]["alertname"], note.body["receiver"]
                self.sent.setdefault(key, []).append(note)
        self.chats = sink.chats
        self.checked_in = sink.checked_in

    def table(self) -> str:
        """Scenario, what fired after how many seconds, who was told after how many."""
        lines = [f"{'scenario':22} {'alert':28} {'fires':>7} {'told':>7}  {'how'}"]
        for job in EXPECTED:
            rows = sorted((after, alert) for (one, alert), after in self.fired.items() if one == job)
            lines += [f"{job:22} -"] if not rows else []
            for after, alert in rows:
                told = self.told(job).get(alert, set())
                first = min((n.at for r in told for n in self.sent[job, alert, r]), default=0.0)
                seen = f"{first - self.began:6.1f}s" if told else "-"
                by = ", ".join(sorted(self.muted.get((job, alert), ())))
                how = ", ".join(sorted(told)) or (f"muted by {by}" if by else "dashboards only")
                lines.append(f"{job:22} {alert:28} {after:6.1f}s {seen:>7}  {how}")
        return "\n".join(lines)


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """All scenarios, from the start to the last notification that is expected."""
    for program in ("prometheus", "alertmanager"):
        need(program)
    folder: Path = tmp_path_factory.mktemp("stack")
    jobs = []
    for name, expected in EXPECTED.items():
        scenario = name
        if name in CHANGED:
            path = folder / f"{name}.toml"
            text = (ROOT / f"lz_otel/lab/simulator/scenarios/{name}.toml").read_text()
            assert CHANGED[name][0] in text
            path.write_text(text.replace(*CHANGED[name]))
            scenario = str(path)
        jobs.append({"job": name, "scenario": scenario, "rate": expected.rate, "clock": expected.clock})
    seen = Run()
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(Sink().serving())
        manager, port = stack.enter_context(alertmanager(_new(folder / "alertmanager"), sink))
        services, begin = stack.enter_context(fleet(jobs))
        database = stack.enter_context(prometheus(_new(folder / "prometheus"), services, port, CONFIG))
        time.sleep(2)
        begin()
        seen.began, start = time.time(), time.monotonic()
        while time.monotonic() - start < LONGEST:
            time.sleep(1)
            seen.look(database, manager, sink)
            if seen.complete() and time.monotonic() - start > SHORTEST:
                break
        groups = get(f"{database}/api/v1/rules")["data"]["groups"]
        seen.evaluation = sum(g["evaluationTime"] for g in groups)
        broken = [(r["name"], r["lastError"]) for g in groups for r in g["rules"] if r.get("lastError")]
        seen.ended = time.monotonic() - start
        print(
            f"\n{seen.table()}\n{len(EXPECTED)} scenarios in {seen.ended:.0f} s; "
            f"one evaluation of all rules: "
            f"{seen.evaluation:.2f} s; {len(sink.notifications)} notifications"
        )
        assert broken == []
        yield seen


def test_every_scenario_is_here() -> None:
    """A scenario that is added to the simulator says here what it must end in."""
    assert set(EXPECTED) == set(names())


@pytest.mark.parametrize("job", EXPECTED)
def test_a_scenario_ends_in_its_notifications(run: Run, job: str) -> None:
    """The alerts that fire are those of the scenario and no others;
    the right receiver hears of them, or nobody.
    """
    expected = EXPECTED[job]
    wanted = {*expected.sent, *expected.shown, *expected.muted}
    assert run.alerts(job) - set(expected.may) == wanted
    assert {a: r for a, r in run.told(job).items() if a not in expected.may} == expected.receivers()


def test_nobody_hears_of_symptoms(run: Run) -> None:
    """What a layer that is down explains is muted by that, and by nothing else."""
    for alert in EXPECTED["layer-down"].muted:
        assert run.muted["layer-down", alert] == {"LLMFastPathGone"}


def test_the_healthy_service_fires_nothing_but_the_watchdog(run: Run) -> None:
    """Over all that time; and the dead man's switch was heard of."""
    assert run.ended >= SHORTEST
    assert {"LLMWatchdog"} == {a for job, a in run.fired if job in ("healthy", "")}
    assert run.checked_in > 0


@pytest.mark.parametrize("job", [j for j, e in EXPECTED.items() if e.sent])
def test_notifications_can_be_acted_on(run: Run, job: str) -> None:
    """Each has its severity, a summary, a description with job and figure,
    a runbook and a dashboard of the job.
    """
    severity = {"page": "critical", "ticket": "warning"}
    for alert, receivers in EXPECTED[job].receivers().items():
        for receiver in receivers:
            sent = [a for note in run.sent[job, alert, receiver] for a in note.body["alerts"]]
            assert sent
            for notified in sent:
                labels, texts = notified["labels"], notified["annotations"]
                assert (labels["alertname"], labels["job"], labels["severity"]) == (
                    alert,
                    job,
                    severity[receiver],
                )
                assert texts["summary"].endswith(".")
                assert job in texts["description"]
                assert any(c.isdigit() for c in texts["description"].replace(job, ""))
                assert "no value" not in texts["description"]
                assert texts["runbook_url"].endswith(f"/alerts/runbooks/{alert}.md")
                assert "/d/" in texts["dashboard_url"]
                assert f"var-job={job}" in texts["dashboard_url"]


def test_messages_are_those_of_the_template(run: Run) -> None:
    """The chat gets the title that says who is hit, the figures and the links."""
    titles = {a["title"]: a["text"] for chat in run.chats for a in chat["attachments"]}
    page = next(
        text
        for title, text in titles.items()
        if title.startswith("[PAGE] cache-share-leak: Answers hold details")
    )
    for part in ("Since ", "Dashboard: http", "Runbook: http", "Silence: http"):
        assert part in page
    assert any(title.startswith("[TICKET] layer-down: A fast path that was in use") for title in titles)
