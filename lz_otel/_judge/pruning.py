"""Mechanism ``pruning`` (article 001): input tokens cut in front of the model.

How it is asked for is **A** (stated in article 001 only); the fields that report what was cut
are **C**, since the article names the numbers and no fields (`signals`, ``LZ_OTEL_SIGNALS``).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from lz_otel import catalogue as c
from lz_otel._judge.base import Judge, is_claude, succeeded
from lz_otel._judge.request_body import finite_number, header_number, request_fields, system_text

if TYPE_CHECKING:
    from lz_otel._extract.request import Fields
    from lz_otel._judge.result import MetricRow, Result
    from lz_otel.model import EndedCall

_FIRST_LINE = 512
_TAG = re.compile(r"<layer-zero((?:\s+[a-z_]{1,32}\s*=\s*(?:\"[^\"<>]{0,64}\"|'[^'<>]{0,64}'))*)\s*/?>")
_ATTRIBUTE = re.compile(r"([a-z_]{1,32})\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


class Asked(NamedTuple):
    """How pruning was asked for: ``enabled`` (``False``: opted out) and the ratio, 0 to 1."""

    enabled: bool
    ratio: float | None
    malformed: bool = False


def tag_of(system: str | None) -> Asked | None:
    """Return the tag on the first line of a system prompt, alone on it; ``None`` when there is none.

    A tag elsewhere has no effect (001 3.2); `lz_otel.explain` names it as a cause.
    """
    if not system or not system.startswith("<layer-zero"):
        return None
    line = system[:_FIRST_LINE].split("\n", 1)[0].strip()
    tag = _TAG.fullmatch(line)
    if tag is None:
        return None
    attributes = {name: a or b for name, a, b in _ATTRIBUTE.findall(tag[1])}
    return _asked(attributes.get("enabled", ""), attributes.get("prune_ratio"))


def _asked(enabled: str, ratio: str | None) -> Asked | None:
    enabled = enabled.strip().lower()
    if enabled in ("false", "disabled"):
        return Asked(False, None)
    if enabled not in ("true", "enabled", "1"):
        return None
    if ratio is None:
        return Asked(True, None)
    try:
        value = float(ratio)
    except ValueError:
        value = -1.0
    return Asked(True, value) if 0.0 <= value <= 1.0 else Asked(True, None, malformed=True)


class PruningJudge(Judge):
    """Hit: asked for (or reported unasked) and at least one input token was cut.

    Fallback: ``rejected`` (400 with an ``error.code``), ``no_report`` (nothing says what was cut),
    ``nothing_pruned``. Bypass: the tag or header says disabled.

    What it cannot know: what was cut, and whether the answer suffered; the application reports
    quality (`lz_otel.record_quality`), per A/B group. When neither usage nor header
    states the cut tokens, they are known only if the application had counted the same content.

    Memory: the counts of the last 1,024 token countings.
    """

    NAME = "pruning"

    def prepare(self) -> None:
        """Make the memory, as the class says."""
        enabled, ratio = (os.environ.get(self.markers[key]) for key in ("asked_env", "ratio_env"))
        asked = _asked(enabled or "", ratio)
        self._environment = asked if asked is not None and asked.enabled else None

    def judge(self, call: EndedCall) -> Result | None:
        """Conclude as the class says. ``saved_usd``: the cut tokens at the price of uncached input."""
        facts = call.facts
        if not facts.inference or not facts.llm_call:
            return None
        top = request_fields(call.facts)
        system = system_text(top) if top is not None else None
        asked = self._asked(call, system)
        rows: list[MetricRow] = []
        if asked is not None and asked.ratio is not None:
            rows.append((c.REQUESTED_RATIO, (), asked.ratio))
        if not succeeded(call):
            if asked is not None and asked.enabled and call.status == 400 and facts.error_code is not None:
                return self._result("fallback", "rejected", rows)
            return self._result(None, rows=rows)
        self._context(call, system, rows)
        pruned, original = self._pruned(call, top)
        # A stream that was left early never states its usage.
        unknown = pruned is None and not facts.usage_seen and call.ending != "ok"
        if not pruned and (asked is None or (asked.enabled and unknown)):
            return self._result(None, rows=rows)
        if pruned is not None and original is not None:
            rows.append((c.PRUNED_TOKENS, (), float(pruned)))
            rows.append((c.ORIGINAL_TOKENS, (), float(original)))
        if pruned:
            return self._result("hit", None, rows, self._saved(call, pruned))
        if asked is not None and not asked.enabled:
            return self._result("bypass", rows=rows)
        return self._result("fallback", "no_report" if pruned is None else "nothing_pruned", rows)

    def _asked(self, call: EndedCall, system: str | None) -> Asked | None:
        malformed = call.facts.malformed
        header = call.request.headers.get(self.markers["asked_header"])
        if header is not None:
            enabled, *parameters = (part.strip() for part in header.split(";"))
            ratios = [p.partition("=")[2].strip() for p in parameters if p.startswith("prune_ratio=")]
            asked = _asked(enabled, ratios[0] if ratios else None)
            if asked is None or asked.malformed:
                malformed.append("header")
            if asked is not None:
                return asked
        asked = tag_of(system)
        if asked is not None:
            if asked.malformed:
                malformed.append("layer_zero")
            return asked
        return self._environment if self._environment is not None and is_claude(call.facts) else None

    def _pruned(self, call: EndedCall, top: Fields | None) -> tuple[int | None, int | None]:
        """Return tokens cut and tokens before, as usage, header or a token counting states them."""
        facts = call.facts
        billed = facts.input_tokens
        stated = self._reported(call, "pruned_tokens")
        if stated is not None:
            return int(stated), None if billed is None else billed + int(stated)
        if billed is None or top is None or self.counted is None:
            return None, None
        counted = self.counted.of(top)
        return (None, None) if counted is None else (max(0, counted - billed), max(counted, billed))

    def _reported(self, call: EndedCall, key: str) -> float | None:
        """Return a number of the report: that in the usage, else that in a header."""
        facts = call.facts
        stated = (facts.layer_zero or {}).get(self.markers[key])
        if stated is not None:
            value = finite_number(stated)
            if value is not None and value >= 0:
                return value
            facts.malformed.append("layer_zero")
        return header_number(call.response_headers, self.markers[f"{key}_header"], facts.malformed)

    def _context(self, call: EndedCall, system: str | None, rows: list[MetricRow]) -> None:
        ms = self._reported(call, "context_ms")
        # It is only measured for a <context>; a constant 0 means that no tag is in use (001 5.3).
        if ms is not None and (ms == 0 or (system is not None and "<context>" in system)):
            rows.append((c.CONTEXT_PRESERVATION, (), ms / 1000))

    def _saved(self, call: EndedCall, pruned: int) -> float | None:
        if self.prices is None:
            return None
        return self.prices.input_price(call.facts, self.now(), pruned, call.request)
