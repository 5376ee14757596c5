"""The five Layer Zero families on the wire, exactly as the articles 000-004 state them (A).

No vendor documents any of this. Fields that an article names without a place on the wire
are ours (C), as in the signal contract. Each function looks at the request, decides by the
scenario's rates, adds its headers, and writes the true verdict into the record.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

import msgspec

from lz_otel.lab.simulator._content import joined_text
from lz_otel.lab.simulator._truth import Mechanism

if TYPE_CHECKING:
    from lz_otel.lab.simulator._context import Context

_TAG = re.compile(r"""<layer-zero\b([^>]*?)/?>[ \t]*(?:\r?\n|$)""")
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_OLD_MODELS = (
    "claude-1", "claude-2", "claude-instant", "claude-3-opus-", "claude-3-sonnet-", "claude-3-haiku-",
)  # fmt: skip
_BETA = "tools-2024-08-06"


class RefusedError(Exception):
    """The family answers 400 ``invalid_request_error``, with this body, and an ``error.code`` in some."""

    def __init__(self, body: dict[str, Any], code: str = "") -> None:
        super().__init__(code)
        self.body = body
        self.code = code


# --- pruning (001) ---------------------------------------------------------------------------


def prune_request(ctx: Context) -> tuple[bool, float | None]:
    """Return whether pruning was asked for, and the ratio; a ratio that cannot be read is ``None``.

    The tag must be the first line of the system prompt, alone on it.
    """
    text = joined_text(ctx.body.get("system"))
    raw: str | None = None
    asked = refused = False
    match = _TAG.match(text)
    if match:
        given = {name: double or single for name, double, single in _ATTRIBUTE.findall(match[1])}
        asked = given.get("enabled", "").lower() == "true"
        refused = not asked
        raw = given.get("prune_ratio", "0.32")
    header = ctx.header(b"x-anthropic-layer-zero")
    if header:
        parts = [p.strip() for p in header.split(";")]
        asked, refused = parts[0] == "enabled", parts[0] == "disabled"
        raw = next((p.partition("=")[2] for p in parts if p.startswith("prune_ratio=")), raw or "0.32")
    if refused:
        ctx.verdict("pruning", Mechanism("bypass"))
    if not asked:
        return False, None
    try:
        ratio = float(raw or "")
    except ValueError:
        return True, None
    return True, ratio if 0.0 < ratio < 1.0 else None


def ask_pruning(ctx: Context, asked: bool, ratio: float | None, prunable: int, counted: bool) -> int:
    """Prune, and tell so by the scenario's way of telling.

    Args:
        ratio: the ratio asked for; ``None`` when it cannot be read.
        prunable: tokens that are not served from the prompt cache.
        counted: the client had this prompt counted, so it can tell what was cut by itself.

    Returns:
        Tokens taken out of the prompt, at least 1 when pruning works and something can go.

    Raises:
        RefusedError: the ratio is bad, or the scenario says so.
    """
    part = ctx.behaviour.pruning
    if not asked or not part.enabled:
        if asked:
            ctx.verdict("pruning", Mechanism("fallback", "nothing_pruned" if counted else "no_report"))
        return 0
    rejected = ctx.force.get("pruning") == "reject" or ctx.draw.chance("pruning.reject", part.reject_rate)
    if ratio is None or rejected:
        code = "invalid_prune_ratio" if ratio is None else "semantic_pruning_failed"
        ctx.verdict("pruning", Mechanism("fallback", "rejected", facts={"code": code}))
        error = {"type": "invalid_request_error", "message": "layer-zero: request refused", "code": code}
        raise RefusedError({"type": "error", "error": error}, code)
    share = min(0.95, ratio * ctx.draw.band("pruning.effect", part.effect))
    pruned = max(0, min(round(prunable * share), prunable - 1))
    report = ctx.force.get("pruning") or part.report
    facts: dict[str, Any] = {"pruned": pruned, "ratio": ratio, "report": report}
    reported: dict[str, Any] = {"pruned_tokens": pruned}
    if "<context>" in joined_text(ctx.body.get("system")) and report != "count":
        preservation = round(ctx.draw.band("pruning.preservation", part.preservation_ms), 1)
        facts["preservation_ms"] = reported["context_preservation_ms"] = preservation
    if report == "usage":
        ctx.usage_extra["layer_zero"] = reported
    elif report == "header":
        for name, value in reported.items():
            header = f"x-anthropic-layer-zero-{name.replace('_', '-')}"
            ctx.extra.append((header.encode(), str(value).encode()))
    reason = None if pruned else "nothing_pruned"
    visible = report != "count" or counted
    ctx.verdict("pruning", Mechanism("hit" if pruned else "fallback", reason, visible, facts))
    return pruned


# --- intent (002) ----------------------------------------------------------------------------


def ask_intent(ctx: Context) -> str:
    """Grant, silently deny, or refuse a sampling intent.

    Returns:
        The intent that shapes the answer: the granted one, or nothing.

    Raises:
        RefusedError: a temperature together with a valid intent.
    """
    part = ctx.behaviour.intent
    intent = ctx.header(b"anthropic-sampling-intent")
    misnamed = ctx.header(b"x-anthropic-sampling-intent")
    asked = intent or misnamed
    if not asked:
        return ""
    betas = [b.strip() for b in ctx.header(b"anthropic-beta").split(",")]
    reason = None
    if not intent:
        reason = "wrong_header"
    elif _BETA not in betas:
        reason = "no_beta"
    elif not ctx.stream:
        reason = "not_streaming"
    elif str(ctx.body.get("model", "")).startswith(_OLD_MODELS):
        reason = "unsupported_model"
    elif not part.enabled:
        reason = "silent"
    elif ctx.body.get("temperature"):
        ctx.verdict("intent", Mechanism("fallback", "temperature_rejected", facts={"intent": asked}))
        raise RefusedError({"error": "temperature is deprecated in zero-layer mode"})
    elif ctx.force.get("intent") == "silent" or ctx.draw.chance("intent.silent", part.silent_rate):
        reason = "silent"
    if reason is not None:
        ctx.verdict("intent", Mechanism("fallback", reason, facts={"intent": asked}))
        return ""
    ctx.extra.append((b"x-anthropic-layer-zero", b"true"))
    ctx.extra.append((b"x-anthropic-sampling-intent", intent.encode("latin-1")))
    ctx.faster("intent.total", part.total_ms)
    ctx.first_ms = ctx.draw.band("intent.first", part.first_token_ms)
    ctx.verdict("intent", Mechanism("hit", facts={"intent": intent}))
    return intent


# --- zeroing (003) ---------------------------------------------------------------------------

_ZEROING_FIELDS = ("zeroing_threshold", "stability_window", "impact_tolerance")
_UNREADABLE = (
    b'{"total_layers": 32, "zeroed',
    b'{"total_layers":"many","zeroed_layers":[],"zeroed_params_ratio":"0.4","fallback_triggered":"no"}',
    b'{"total_layers":32,"zeroed_layers":14,"zeroed_params_ratio":NaN,"fallback_triggered":false}',
    b"[1, 2, 3]",
)
_BAD_REPORTS = (b"%%%not-base64%%%", *map(base64.b64encode, _UNREADABLE))


def ask_zeroing(ctx: Context) -> bool:
    """Report how many layers were zeroed.

    Returns:
        Whether the stream carries masks.
    """
    part = ctx.behaviour.zeroing
    asked = ctx.header(b"anthropic-layer-zero")
    forced = ctx.force.get("zeroing", "")
    max_tokens = ctx.body.get("max_tokens")
    silent = not part.enabled or forced == "no_report"
    unserved: Mechanism | None = None
    if asked == "disabled":
        unserved = Mechanism("bypass")
    elif asked != "enabled":
        if asked or not any(name in ctx.body for name in _ZEROING_FIELDS):
            return False
        unserved = Mechanism("fallback", "no_report")  # without the header nothing happens (A)
    elif isinstance(max_tokens, int) and max_tokens > 8192:
        unserved = Mechanism("fallback", "too_long")
    elif silent or ctx.draw.chance("zeroing.no_report", part.no_report_rate):
        unserved = Mechanism("fallback", "no_report")
    if unserved is not None:
        ctx.verdict("zeroing", unserved)
        return False
    if forced == "malformed" or ctx.draw.chance("zeroing.malformed", part.malformed_report_rate):
        ctx.extra.append((b"x-anthropic-layer-zero-report", ctx.draw.pick("zeroing.bad", _BAD_REPORTS)))
        ctx.record.malformed.append("report")
        ctx.verdict("zeroing", Mechanism("", facts={"malformed_report": True}))
        return True
    fallback = forced == "fallback" or (
        forced != "hit" and ctx.draw.chance("zeroing.fallback", part.fallback_rate)
    )
    ratio = round(ctx.draw.band("zeroing.ratio", part.ratio), 4)
    report = {
        "total_layers": part.total_layers,
        "zeroed_layers": round(part.total_layers * ratio),
        "zeroed_params_ratio": ratio,
        "fallback_triggered": fallback,
        "routing_confidence": round(ctx.draw.band("zeroing.confidence", part.confidence), 3),
    }
    ctx.extra.append((b"x-anthropic-layer-zero-report", base64.b64encode(msgspec.json.encode(report))))
    if fallback:
        ctx.verdict("zeroing", Mechanism("fallback", "triggered", facts=report))
    else:
        ctx.verdict("zeroing", Mechanism("hit", facts=report))
        ctx.faster("zeroing.total", part.total_ms)
    return True


_BAD_MASKS: tuple[Any, ...] = ("[true,", "yes", 7, {"0": True}, [1, "x"])


def masks(ctx: Context, count: int) -> list[Any]:
    """Return one ``zeroing_mask`` per delta, in each of the spellings seen (A), as values to be encoded."""
    part = ctx.behaviour.zeroing
    constant = ctx.draw.chance("mask.constant", part.constant_mask_rate)
    spelt = ctx.draw.chance("mask.string", part.string_mask_rate)
    spelling = ctx.draw.integer("mask.spelling", 0, 2)
    out: list[Any] = []
    before: list[bool] | None = None
    switches = bad = 0
    for index in range(count):
        if ctx.draw.chance(f"mask.bad.{index}", part.malformed_mask_rate):
            out.append(ctx.draw.pick(f"mask.kind.{index}", _BAD_MASKS))
            bad += 1
            continue
        bits = int(ctx.draw.unit("mask.bits" if constant else f"mask.bits.{index // 2}") * 32)
        mask = [True] * 5 if constant else [bool(bits >> i & 1) for i in range(5)]
        switches += before is not None and mask != before
        before = mask
        out.append(_spell(mask, spelling) if spelt else mask)
    mechanism = ctx.record.mechanisms.get("zeroing")
    if mechanism is not None:
        counted = {"mask_events": count - bad, "mask_switches": switches, "bad_masks": bad}
        mechanism.facts = {**mechanism.facts, **counted}
    ctx.record.malformed.extend(["mask"] * bad)
    return out


def _spell(mask: list[bool], spelling: int) -> str:
    quote = ("", "'", '"')[spelling]
    return "[" + ",".join(f"{quote}{str(bit).lower()}{quote}" for bit in mask) + "]"


# --- scheduling (004) ------------------------------------------------------------------------


def ask_scheduling(ctx: Context) -> bool:
    """Serve from the zero-latency pool or not.

    Returns:
        Whether the zero layer served it.
    """
    part = ctx.behaviour.scheduling
    hint = ctx.header(b"x-anthropic-layer-hint").split(";")[0].strip()
    if hint == "legacy":
        ctx.verdict("scheduling", Mechanism("bypass"))
        return False
    if hint != "zero-latency":
        return False
    trace = f"lz-{ctx.record.ordinal:012x}".encode()
    forced = ctx.force.get("scheduling", "")
    unserved = not part.enabled or ctx.header(b"anthropic-version") != "2024-10-22"
    if unserved or forced == "none" or ctx.draw.chance("scheduling.none", part.not_served_rate):
        ctx.verdict("scheduling", Mechanism("fallback", "not_served"))
        return False
    ctx.extra.append((b"x-anthropic-trace-id", trace))
    if forced == "standard" or (forced != "zero" and not ctx.draw.chance("scheduling.zero", part.zero_rate)):
        ctx.extra.append((b"x-anthropic-layer-served", b"standard"))
        ctx.verdict("scheduling", Mechanism("fallback", "served_standard"))
        return False
    ctx.extra.append((b"x-anthropic-layer-served", b"zero"))
    ctx.faster("scheduling.total", part.total_ms)
    ctx.verdict("scheduling", Mechanism("hit", facts={"trace": trace.decode()}))
    return True
