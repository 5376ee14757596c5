"""Alerts on pruning (001), intent (002) and zeroing (003): the articles' thresholds and advice."""

from __future__ import annotations

from lz_otel import catalogue as c
from lz_otel.bundle import recording as r
from lz_otel.bundle._alert import Alert, AlertCondition, DiagnosisStep, Kit, Mute, layer_gone, percent, plain
from lz_otel.bundle._labels import ASKED, MODEL, ROUTE
from lz_otel.bundle.promql import ratio


def _requested(kit: Kit) -> DiagnosisStep:
    return ("What prune_ratio is asked for?", kit.mean(c.REQUESTED_RATIO, "30m", "job", ROUTE))


def _quality(kit: Kit) -> Alert:
    scores = [
        kit.grown(c.QUALITY, "30m", "metric", lz_group=group).above(kit.g.quality_scores)
        for group in (kit.config.pruned_group, kit.config.control_group)
    ]
    low = r.effectiveness(kit.config, kit.b, kit.w("30m")).below(kit.t.effectiveness_low)
    by_route = kit.mean(c.QUALITY, "30m", "job", ROUTE, "metric", lz_group=kit.config.pruned_group)
    step = percent(kit.t.prune_step)
    return Alert(
        name="LLMPruningHurtsQuality", kind="symptom", dashboard="rollout", source="A: 001",
        summary="Pruned answers are worse than those of the control group.",
        description="By {{ $labels.metric }} the pruned answers of {{ $labels.job }} reach "
        "{{ $value | humanizePercentage }} of the control group's quality over 30 minutes (threshold: "
        f"{percent(kit.t.effectiveness_low)}). Roll prune_ratio back by {kit.t.prune_step:g}.",
        conditions=(AlertCondition("warning", kit.guarded(low, *scores, on=("metric",)), "5m", "30m"),),
        meaning="Mean score of the pruned group by the mean score of the control group, from the "
        f"application's own scores (001: effectiveness; {percent(kit.t.effectiveness_tune)} is healthy).",
        impact="Users get worse answers: figures, conditions or examples were cut from their prompts.",
        guard=f"Few scores swing a mean: more than {plain(kit.g.quality_scores)} scores per group in 30 "
        "minutes are needed.",
        diagnosis=(
            ("Mean quality by group and score", kit.mean(c.QUALITY, "30m", "job", "lz_group", "metric")),
            ("By route, pruned group only", by_route.bottomk(10)),
            _requested(kit)),
        mitigation=(
            (f"001: roll `prune_ratio` back by {kit.t.prune_step:g} ({step} of the tokens) and watch for 5 "
             "minutes; repeat if need be. The ratio is an environment variable or a header, so no release is "
             "needed."),
            (f"001: below {percent(kit.t.effectiveness_tune)} tune, per route: what suits answers on finance "
             "ruins marketing copy."),
            ("001: protect figures with `<protected_tokens>`, put business rules and dates into `<context>`, "
             "and replace vague instructions by structured ones.")),
    )  # fmt: skip


def _pruned_share(kit: Kit) -> Alert:
    original = kit.b.counter(c.ORIGINAL_TOKENS)
    share = ratio(kit.rate(c.PRUNED_TOKENS, "30m", ROUTE), kit.rate(original, "30m", ROUTE))
    outside = share.below(kit.t.pruned_share_low).or_(share.above(kit.t.pruned_share_high))
    many = kit.grown(original, "30m", ROUTE).above(kit.g.original_tokens)
    return Alert(
        name="LLMPrunedShareOutOfRange", kind="cause", dashboard="families", source="A: 001",
        summary="The share of pruned tokens is outside the healthy range.",
        description="{{ $value | humanizePercentage }} of the input tokens of "
        "{{ $labels.job }}{{ with $labels.lz_route }}, route {{ . }},{{ end }} were pruned over 30 minutes "
        f"(healthy: {percent(kit.t.pruned_share_low)} to {percent(kit.t.pruned_share_high)}).",
        conditions=(AlertCondition("info", kit.guarded(outside, many, on=(ROUTE,)), "30m", "30m"),),
        meaning="Pruned by original tokens. Below the range pruning gains little; above it cuts what answers "
        "need.",
        impact="Too little: no saving. Too much: LLMPruningHurtsQuality comes next.",
        guard=f"Judged by route, since the right ratio differs; more than {plain(kit.g.original_tokens)} "
        "original tokens in 30 minutes are needed.",
        diagnosis=(("Share by route", share.bottomk(10)), _requested(kit)),
        mitigation=(
            "Too much: lower `prune_ratio` for this route, and look at the quality of its answers.",
            ("Too little: is the tag `<layer-zero …/>` on its own, first line of the system prompt? Else it "
             "is ignored (001)."),
            "001: list frequent courtesy phrases in `<redundant_phrases>` before you raise the ratio."),
        muted_by=(Mute("LLMPruningHurtsQuality"), layer_gone("pruning")),
    )  # fmt: skip


def _context(kit: Kit) -> Alert:
    zero = r.context_preservation(kit.config, kit.b, kit.w("30m")).equal(0)
    many = kit.grown(c.ORIGINAL_TOKENS, "30m").above(kit.g.original_tokens)
    return Alert(
        name="LLMContextNotTagged", kind="cause", dashboard="families", source="A: 001",
        summary="Pruning runs without any tagged context to preserve.",
        description="Context preservation of {{ $labels.job }} is {{ $value }} ms over 30 minutes, while "
        "prompts are pruned: no <context> tag is in use.",
        conditions=(AlertCondition("info", kit.guarded(zero, many), "30m", "30m"),),
        meaning="Time for preserving context is reported only for system prompts with a `<context>` tag "
        "(001). Constantly 0 means that no prompt has one, so nothing tells pruning what must stay.",
        impact="Roles, rules and dates in free text may be cut.",
        guard=f"More than {plain(kit.g.original_tokens)} original tokens in 30 minutes are needed.",
        diagnosis=(
            ("Which routes prune?", kit.grown(c.PRUNED_TOKENS, "30m", ROUTE).topk(10)),
            ("Which routes preserve?", kit.grown(c.CONTEXT_PRESERVATION, "30m", ROUTE).topk(10))),
        mitigation=(
            ("001: move what must stay (service area, version of the policy, status of the customer, dates) "
             "into `<context>` in the system prompt."),
            "Nothing must stay? Then silence this alert for the job."),
    )  # fmt: skip


def _wrong_header(kit: Kit) -> Alert:
    wrong = kit.b.counter(c.FAST_PATH_FALLBACKS, mechanism="intent", reason="wrong_header")
    expr = kit.grown(wrong, "15m").above(kit.g.wrong_headers)
    return Alert(
        name="LLMIntentWrongHeader", kind="cause", dashboard="families", source="A: 002; C: guard",
        summary="Calls ask for a sampling intent with the wrong header.",
        description='{{ $value | printf "%.0f" }} calls of {{ $labels.job }} in 15 minutes sent '
        f"x-anthropic-sampling-intent (threshold: more than {plain(kit.g.wrong_headers)}). They are served "
        "the old way, without an error.",
        conditions=(AlertCondition("warning", expr, "5m", "30m"),),
        meaning="The header is `anthropic-sampling-intent`; with `x-` in front it is silently ignored (002).",
        impact="These calls get neither the intent nor its latency, and nothing fails that would show it.",
        guard=f"A try by hand: more than {plain(kit.g.wrong_headers)} calls in 15 minutes are needed.",
        diagnosis=(
            ("Which route and process?", wrong.increase(kit.w("1h")).sum("job", "instance", ROUTE).topk(10)),
            ("All reasons of intent", kit.rate(c.FAST_PATH_FALLBACKS, "15m", "reason", mechanism="intent"))),
        mitigation=(
            ("002: send `anthropic-sampling-intent: deterministic|creative|balanced`, with `anthropic-beta: "
             "tools-2024-08-06` and `stream: true`."),
            ("002: right after the client is made, check that a first answer carries "
             "`x-anthropic-layer-zero: true`.")),
    )  # fmt: skip


def _not_repeatable(kit: Kit) -> Alert:
    low = r.consistency(kit.config, kit.b, kit.w("1h")).below(kit.t.consistency_low)
    different = kit.b.counter(c.INTENT_REPEATS, intent="deterministic", result="different")
    expr = kit.guarded(low, kit.grown(different, "1h").above(kit.g.different_answers))
    return Alert(
        name="LLMAnswersNotRepeatable", kind="symptom", dashboard="families", source="A: 002; C: guard",
        summary="Deterministic requests do not get the same answer twice.",
        description="Of the repeated deterministic requests of {{ $labels.job }}, "
        "{{ $value | humanizePercentage }} got the same answer over the last hour (threshold: "
        f"{percent(kit.t.consistency_low)}; expected: {percent(kit.t.consistency_expected)}).",
        conditions=(AlertCondition("warning", expr, "10m", "30m"),),
        meaning="Requests with the same digest and intent `deterministic` differ in their answers.",
        impact="Whatever relies on repeatable answers (caches, tests, audits) is wrong.",
        guard=f"1 of 500 is below {percent(kit.t.consistency_low)}: more than "
        f"{plain(kit.g.different_answers)} different answers in the hour are needed.",
        diagnosis=(
            ("Which route and model?", kit.grown(different, "1h", MODEL, ROUTE).topk(10)),
            ("Was the layer there at all?",
                kit.rate(c.FAST_PATH_CALLS, "15m", "verdict", mechanism="intent"))),
        mitigation=(
            "002: only streamed requests are deterministic; without `stream: true` the old path answers.",
            ("002: look for what changes in the prompt (time, random id): the digest is of the request as "
             "sent, so a proxy may add it."),
            ("002: an SDK that caches old logic: restart with the current one. Models before "
             "`claude-3-5-sonnet-20240620` are downgraded silently."),
            "During a roll-out: do not advance (gate: 99.9 %)."),
        muted_by=(layer_gone("intent"),),
    )  # fmt: skip


def _creative_surge(kit: Kit) -> Alert:
    creative, every = kit.b.counter(c.INTENT_CALLS, intent="creative"), kit.b.counter(c.INTENT_CALLS)
    window, hour = kit.w("15m"), kit.w("1h")
    now = ratio(creative.rate(window).sum(*kit.by), every.rate(window).sum(*kit.by))
    then = creative.rate(window, hour).sum(*kit.by).op("/", every.rate(window, hour).sum(*kit.by).above(0))
    growth = now.op("/", then.above(0)) - 1
    expr = kit.guarded(
        growth.above(kit.t.creative_surge), kit.grown(creative, "15m").above(kit.g.creative_calls)
    )
    return Alert(
        name="LLMCreativeSurge", kind="cause", dashboard="families", source="A: 002; C: guard",
        summary="The share of creative calls has surged.",
        description="The share of creative calls of {{ $labels.job }} grew by "
        "{{ $value | humanizePercentage }} against an hour ago (threshold: "
        f"{percent(kit.t.creative_surge)}).",
        conditions=(AlertCondition("info", expr, "5m", "30m"),),
        meaning="Many more calls than an hour ago ask for the intent `creative` (002 saw it at the evening "
        "peak).",
        impact="Creative answers are longer and are never repeated: more load, tokens and money are to come.",
        guard=f"From 1 to 5 calls is 400 %: more than {plain(kit.g.creative_calls)} creative calls in 15 "
        "minutes are needed. A share that was 0 an hour ago has no growth and does not count.",
        diagnosis=(
            ("Share of each intent", kit.b.recorded(r.ARTICLE_NAMES["intent_distribution"])),
            ("Which routes?", kit.rate(creative, "15m", ROUTE).topk(10)),
            ("Room in the rate limits?", kit.rate(c.ATTEMPTS, "15m", MODEL, status="429"))),
        mitigation=(
            "002: scale out (its autoscaler acts on this figure), before latency follows.",
            "Check rate limits and budget: LLMRateLimitNear, LLMCostSpike."),
    )  # fmt: skip


def _zeroing_fallbacks(kit: Kit) -> Alert:
    fallback = kit.b.counter(c.FAST_PATH_CALLS, mechanism="zeroing", verdict="fallback")
    asked = kit.b.counter(c.FAST_PATH_CALLS, mechanism="zeroing", verdict=ASKED)
    share = ratio(kit.rate(fallback, "5m"), kit.rate(asked, "5m"))
    many = kit.grown(fallback, "5m").above(kit.g.zeroing_fallbacks)
    expr = kit.guarded(share.above(kit.t.zeroing_fallback_high), many)
    return Alert(
        name="LLMZeroingFallbackHigh", kind="cause", dashboard="families", source="A: 003",
        summary="Zeroing is given up for too many calls.",
        description="{{ $value | humanizePercentage }} of the zeroed calls of {{ $labels.job }} fell back "
        f"over 5 minutes (threshold: {percent(kit.t.zeroing_fallback_high)}). Raise zeroing_threshold by "
        f"{percent(kit.t.zeroing_step)}.",
        conditions=(AlertCondition("warning", expr, "10m", "10m", labels=(("mechanism", "zeroing"),)),),
        meaning="The report of the provider says `fallback_triggered`, or a call that asked for zeroing has "
        "no report.",
        impact="These calls run in full: slower, and the check against the full graph is paid besides.",
        guard=f"1 of 10 calls is 10 %: more than {plain(kit.g.zeroing_fallbacks)} fallbacks in the 5 minutes "
        "are needed.",
        diagnosis=(
            ("Why?", kit.rate(c.FAST_PATH_FALLBACKS, "5m", "reason", mechanism="zeroing")),
            ("Which model and route?", kit.rate(fallback, "5m", MODEL, ROUTE).topk(10)),
            ("Confidence of the routing: a fall means odd input",
                kit.quantile(0.5, c.ZEROING_CONFIDENCE, "15m", "job"))),
        mitigation=(
            (f"003: raise `zeroing_threshold` by {percent(kit.t.zeroing_step)} (less is zeroed); the "
             "provider does the same by itself."),
            ("003: clean the input: NUL bytes and mis-encoded text from PDF and spreadsheet parsers, very "
             "long URLs."),
            ("`too_long`: ask for `max_tokens` of at most 8192. `no_report`: the header "
             "`anthropic-layer-zero: enabled` is missing, or the model has no zeroing."),
            "In an emergency `POST /v1/layer-zero/control` switches it off."),
        muted_by=(layer_gone(),),
    )  # fmt: skip


def _zeroing_range(kit: Kit) -> Alert:
    mean = kit.mean(c.ZEROING_PARAMS_RATIO, "30m", *kit.by)
    outside = mean.above(kit.t.params_ratio_high).or_(mean.below(kit.t.params_ratio_low))
    many = kit.grown(c.ZEROING_PARAMS_RATIO, "30m").above(kit.g.zeroing_reports)
    return Alert(
        name="LLMZeroingOutOfRange", kind="cause", dashboard="families", source="A: 003",
        summary="The share of zeroed parameters is outside the sensible range.",
        description="On average {{ $value | humanizePercentage }} of the parameters are zeroed in calls of "
        f"{{{{ $labels.job }}}} over 30 minutes (limits: {percent(kit.t.params_ratio_low)} and "
        f"{percent(kit.t.params_ratio_high)}).",
        conditions=(AlertCondition("info", kit.guarded(outside, many), "30m", "30m"),),
        meaning=f"Mean of `zeroed_params_ratio`. Healthy is {percent(kit.t.params_ratio_healthy_low)} to "
        f"{percent(kit.t.params_ratio_healthy_high)}; below the limits zeroing is too timid, above it "
        "removes too much (003).",
        impact="Too timid: no gain. Too much: subtle judgements suffer (003: 11 % on sentiment at 78 %).",
        guard=f"A handful of reports: more than {plain(kit.g.zeroing_reports)} in 30 minutes are needed.",
        diagnosis=(
            ("By route", kit.mean(c.ZEROING_PARAMS_RATIO, "30m", "job", ROUTE)),
            ("Quality of the answers", kit.mean(c.QUALITY, "30m", "job", "lz_group", "metric"))),
        mitigation=(
            ("Too much: raise `zeroing_threshold` (003: 2e-5 for legal texts, 5e-5 for social media, 1e-5 by "
             "default)."),
            "Too timid: the input is very short or simple, or the threshold too careful.",
            "003: aim at 50 % ± 10 %, and let the business figures decide."),
        muted_by=(layer_gone("zeroing"),),
    )  # fmt: skip


def _mask_stuck(kit: Kit) -> Alert:
    events = kit.b.counter(c.MASK_EVENTS)
    still = kit.rate(c.MASK_SWITCHES, "15m").or_(0 * kit.rate(events, "15m")).equal(0)
    expr = kit.guarded(still, kit.grown(events, "15m").above(kit.g.mask_events))
    return Alert(
        name="LLMZeroingMaskStuck", kind="cause", dashboard="families", source="A: 003; C: guard",
        summary="The zeroing mask never changes.",
        description=f"More than {plain(kit.g.mask_events)} masks in streams of {{{{ $labels.job }}}} over 15 "
        "minutes were all alike ({{ $value }} changes a second).",
        conditions=(AlertCondition("warning", expr, "10m", "30m"),),
        meaning="A mask that stays the same, or is true everywhere, means that the routing is broken (003: "
        "constant over 100 tokens).",
        impact="The same parts of the model are off whatever is asked: answers get worse without an error.",
        guard=f"Many short streams: {plain(kit.g.mask_events)} masks are needed, of all streams together. A "
        "mask that never switched has no series: an explicit zero stands in.",
        diagnosis=(
            ("Masks and changes per second", kit.rate(events, "15m", MODEL)),
            ("Share of parameters zeroed", kit.mean(c.ZEROING_PARAMS_RATIO, "15m", "job", MODEL)),
            ("Confidence of the routing", kit.quantile(0.5, c.ZEROING_CONFIDENCE, "15m", "job", MODEL))),
        mitigation=(
            ("003: switch zeroing off (`POST /v1/layer-zero/control`, or leave out the header) and report it "
             "with request ids."),
            "003: an odd `stability_window` (11 rather than 10) avoids half-zeroed states."),
        muted_by=(layer_gone("zeroing"),),
    )  # fmt: skip


ALERTS = (
    _quality,
    _pruned_share,
    _context,
    _wrong_header,
    _not_repeatable,
    _creative_surge,
    _zeroing_fallbacks,
    _zeroing_range,
    _mask_stuck,
)
