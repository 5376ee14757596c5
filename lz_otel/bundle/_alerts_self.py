"""Alerts on lz_otel itself: can the others be trusted? And the watchdog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle._alert import Alert, AlertCondition, Kit, percent, plain
from lz_otel.bundle._labels import MODEL, ROUTE
from lz_otel.bundle.promql import Not, ratio, vector

if TYPE_CHECKING:
    from lz_otel.bundle.promql import Value

WATCHDOG = "LLMWatchdog"


def _silent(kit: Kit) -> Alert:
    where: dict[str, Value] = {"job": Not(kit.config.batch_jobs)} if kit.config.batch_jobs else {}
    build = kit.b.gauge(c.BUILD_INFO, **where)
    before = build.over_time("max_over_time", kit.w("6h")).group(*kit.by)
    return Alert(
        name="LLMOtelSilent", kind="symptom", dashboard="internals", source="C",
        summary="A service no longer reports anything about its LLM calls.",
        description="No process of {{ $labels.job }} reports lz_build_info, and one did within the last 6 "
        "hours. All other alerts are blind for this job.",
        conditions=(AlertCondition("warning", before.unless(build.group(*kit.by), on=kit.by), "15m"),),
        meaning="The exporter is gone: the service is down, is not scraped, or does not reach its collector, "
        "or lz_otel is switched off.",
        impact="Errors, cost and limits of this service would go unnoticed.",
        guard="One instance that goes does not matter, only a whole job. Jobs that end by themselves: list "
        "them in `batch_jobs`. It ends after 6 hours.",
        diagnosis=(
            ("Which jobs report?", kit.b.gauge(c.BUILD_INFO).count("job", "version")),
            ("Since when are there fewer?", kit.b.gauge(c.BUILD_INFO).count("job"))),
        mitigation=(
            "Is the service up? If not, this is not the alert to look at.",
            ("Scrape: open its `/metrics`, and look at the targets page of Prometheus. OTLP: look at the "
             "collector's log."),
            "Removed on purpose? Silence it for 6 hours."),
    )  # fmt: skip


def _internal_errors(kit: Kit) -> Alert:
    faults, lost = kit.b.counter(c.INTERNAL_ERRORS), kit.b.counter(c.INTERNAL_LOST)
    least = kit.g.internal_errors
    return Alert(
        name="LLMOtelInternalErrors", kind="cause", dashboard="internals", source="C",
        summary="lz_otel has faults of its own, or could not keep what it has seen.",
        description='{{ $value | printf "%.0f" }} {{ if $labels.what }}calls, entries or spans were lost '
        "within 15 minutes ({{ $labels.what }}) by {{ else }}faults within 15 minutes in part "
        "{{ $labels.where }} of {{ end }}lz_otel at {{ $labels.job }} (threshold: more than "
        f"{plain(least)}). The service is not affected.",
        conditions=(AlertCondition("warning", kit.grown(faults, "15m", "where").above(least).or_(
                kit.grown(lost, "15m", "what").above(least)), "5m", "30m"),),
        meaning="Something in lz_otel failed, was caught, and was counted (`where`), or calls, entries of "
        "the audit log or spans could not be kept (`what`). The first of each kind is in the service's log.",
        impact="Some calls are missing from the figures, or from traces or the audit log. Requests are not "
        "touched.",
        guard=f"One odd body: more than {plain(least)} in 15 minutes are needed. Both counters start at 0, "
        "so the first one counts.",
        diagnosis=(
            ("Which part, which process?",
                faults.increase(kit.w("1h")).sum("job", "instance", "where").topk(10)),
            ("What was lost, in which process?",
                lost.increase(kit.w("1h")).sum("job", "instance", "what").topk(10)),
            ("Which version?",
                kit.b.gauge(c.BUILD_INFO).count("job", "version", "httpx_version", "httpx2_version"))),
        mitigation=(
            ("Look for `lz_otel` in the log of an instance that the query names; report it with the trace "
             "and the versions."),
            "With a release of httpx or an SDK: pin it as before, until lz_otel is updated.",
            "`export`, `push`, `spans`: is the collector reachable, and does it take the headers?",
            "`folder`, `audit`: is the disk full, and may this user write there?",
            "`queue`: do finalizers or handlers of signals make calls by the thousand? Report it.",
            "`worker`: who kills worker processes? Give them time to end."),
    )  # fmt: skip


def _overhead(kit: Kit) -> Alert:
    p99 = kit.quantile(0.99, c.INTERNAL_OVERHEAD, "15m", *kit.by)
    many = kit.grown(c.INTERNAL_OVERHEAD, "15m").above(kit.g.calls)
    return Alert(
        name="LLMOtelOverheadHigh", kind="symptom", dashboard="internals", source="C",
        summary="lz_otel takes too much time of each call.",
        description="For the slowest 1 % of the sampled calls of {{ $labels.job }} lz_otel took "
        "{{ $value | humanizeDuration }} or longer over 15 minutes (threshold: "
        f"{plain(kit.t.overhead_p99_seconds)} s).",
        conditions=(AlertCondition("warning", kit.guarded(p99.above(kit.t.overhead_p99_seconds), many), "15m",
                "15m"),),
        meaning="Time inside lz_otel per call, sampled.",
        impact="Calls are that much slower, and with asyncio so is everything else in the process meanwhile.",
        guard=f"A host short of CPU looks the same; more than {plain(kit.g.calls)} samples in 15 minutes are "
        "needed.",
        diagnosis=(
            ("Which process? One alone is short of CPU",
                kit.quantile(0.99, c.INTERNAL_OVERHEAD, "15m", "job", "instance").topk(10)),
            ("Median beside it", kit.quantile(0.5, c.INTERNAL_OVERHEAD, "15m", "job"))),
        mitigation=(
            "All processes: very long bodies or histories? Report it with their size.",
            "Some processes: CPU limits. Look at throttling.",
            "`OTEL_SDK_DISABLED=true` switches lz_otel off without a release."),
    )  # fmt: skip


def _unreadable(kit: Kit) -> Alert:
    bad = kit.b.counter(c.MALFORMED)
    calls = kit.b.count(c.INFERENCE_DURATION)
    share = ratio(kit.rate(bad, "30m"), kit.rate(calls, "30m"))
    expr = kit.guarded(share.above(kit.t.malformed), kit.grown(calls, "30m").above(kit.g.calls))
    return Alert(
        name="LLMOtelUnreadableSignals", kind="cause", dashboard="internals", source="C",
        summary="Many signals of the provider cannot be read.",
        description="{{ $value | humanizePercentage }} of the calls of {{ $labels.job }} had a signal that "
        f"could not be read over 30 minutes (threshold: {percent(kit.t.malformed)}).",
        conditions=(AlertCondition("info", expr, "30m", "30m"),),
        meaning="Bodies, events, headers or reports were not in the form that lz_otel knows. They are "
        "counted and left out.",
        impact="Figures that rest on these signals are too low. Requests are not touched.",
        guard=f"One odd report: 30 minutes, and more than {plain(kit.g.calls)} calls.",
        diagnosis=(
            ("Which signal, from whom?", kit.rate(bad, "30m", "signal", "gen_ai_provider_name").topk(10)),
            ("Of which model?", kit.rate(bad, "30m", "signal", "gen_ai_request_model").topk(10))),
        mitigation=(
            ("Since a certain day, and for one provider: it has changed its format. Update lz_otel, or "
             "report it."),
            "`encoding`: install `lz-otel[encodings]`. `body`, `event`: does a gateway rewrite answers?"),
    )  # fmt: skip


def _series_limit(kit: Kit) -> Alert:
    over = kit.b.counter(c.INTERNAL_OVERFLOW)
    return Alert(
        name="LLMOtelSeriesLimit", kind="cause", dashboard="internals", source="C",
        summary="A metric of lz_otel has reached its limit of series.",
        description="{{ $labels.metric }} of {{ $labels.job }} has more label sets than its limit: within 15 "
        'minutes {{ $value | printf "%.0f" }} were counted under `other`. Sums stay right, splits do not.',
        conditions=(AlertCondition("warning", kit.grown(over, "15m", "metric").above(0), "15m", "1h"),),
        meaning="Too many models, routes or groups: everything new goes into one set called `other`.",
        impact="What is new is missing in dashboards that split by model or route.",
        guard="Goes on until the process restarts; 15 minutes, and a long `repeat_interval`.",
        diagnosis=(
            ("Which metric?", kit.grown(over, "1h", "metric").topk(10)),
            ("How many models and routes are there?",
                kit.b.count(c.INFERENCE_DURATION).series().count("job", MODEL, ROUTE).count("job"))),
        mitigation=(
            ("Route names with ids in them: name the operation after what it does, not after what it works "
             "on."),
            "Model names with ids (deployments, fine-tunes): map them before they are reported.",
            "Really that many? Split the service into more jobs."),
    )  # fmt: skip


def _watchdog(_kit: Kit) -> Alert:
    return Alert(
        name=WATCHDOG, kind="symptom", dashboard="internals", source="C",
        summary="This alert always fires: it shows that alerting works.",
        description="If the receiver of this alert hears nothing, Prometheus or Alertmanager is down, or "
        "they do not reach it.",
        conditions=(AlertCondition("none", vector(1).above(0), "0m"),),
        meaning="It fires always. A dead man's switch, outside of this system, calls when it stops.",
        impact="None while it fires. Once it stops, no other alert can reach anybody.",
        guard="-",
        diagnosis=(("It is always 1", vector(1)),),
        mitigation=(
            "Fires: all is well. Never silence it.",
            ("The switch called: is Prometheus up, are its rules loaded, does it reach Alertmanager, does "
             "that reach the switch?")),
    )  # fmt: skip


ALERTS = (_silent, _internal_errors, _overhead, _unreadable, _series_limit, _watchdog)
