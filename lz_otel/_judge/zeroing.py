"""Mechanism ``zeroing`` (article 003): paths of the model cut while it answers.

All of it is **A**: stated in article 003 only; no vendor documents it.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel import catalogue as c
from lz_otel._judge.base import Judge, succeeded
from lz_otel._judge.request_body import finite_number, request_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel._judge.result import MetricRow, Result
    from lz_otel.model import EndedCall, Facts, Request

MAX_TOKENS = 8192  # above it the mechanism is off (003 3.1)
_MAX_REPORT = 8192  # characters of the header
_MAX_MASK = 65_536
_MAX_LAYERS = 100_000
_NUMBERS = ("total_layers", "zeroed_layers", "zeroed_params_ratio", "routing_confidence")


class Report(NamedTuple):
    """What the report header says; ``None`` where a field is missing or unusable."""

    fallback: bool | None
    total: int | None
    zeroed: int | None
    ratio: float | None
    confidence: float | None


def parse_report(header: str) -> tuple[Report | None, bool]:
    """Decode the report; also tell whether all of it could be read.

    ``None`` when it is no base64 of a JSON object. A field of a wrong type or out of range is
    left out, and so is a count of layers that contradicts the other.
    """
    if len(header) > _MAX_REPORT:
        return None, False
    text = header.strip().replace("-", "+").replace("_", "/")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        value = json.loads(raw, parse_constant=_refused)
    except (binascii.Error, ValueError, RecursionError):
        return None, False
    if not isinstance(value, dict):
        return None, False
    fallback = value.get("fallback_triggered")
    total, zeroed, *shares = map(value.get, _NUMBERS)
    total, zeroed, (ratio, confidence) = _layers(total), _layers(zeroed), map(_share, shares)
    contradiction = total is not None and zeroed is not None and zeroed > total
    good = isinstance(fallback, bool) and not contradiction
    for key, part in zip(_NUMBERS, (total, zeroed, ratio, confidence), strict=True):
        good = good and (part is not None or value.get(key) is None)
    if contradiction:
        total = zeroed = None
    return Report(fallback if isinstance(fallback, bool) else None, total, zeroed, ratio, confidence), good


def _refused(name: str) -> None:
    raise ValueError(name)


def _layers(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MAX_LAYERS else None


def _share(value: object) -> float | None:
    share = finite_number(value)
    return share if share is not None and 0.0 <= share <= 1.0 else None


def parse_mask(value: object) -> tuple[bool, ...] | None:
    """Decode a mask in each of its spellings; ``None`` when it is none.

    A list of booleans; or a text that holds such a list, its words in double quotes, single quotes
    or none (003 5.2), in JSON's or Python's spelling.
    """
    if isinstance(value, list):
        return tuple(value) if all(v is True or v is False for v in value) else None
    if not isinstance(value, str) or len(value) > _MAX_MASK:
        return None
    text = value.replace("'", "").replace('"', "").strip()
    if not text.startswith("[") or not text.endswith("]"):
        return None
    inner = text[1:-1].strip()
    if not inner:
        return ()
    words = [word.strip().lower() for word in inner.split(",")]
    return tuple(word == "true" for word in words) if all(w in ("true", "false") for w in words) else None


class Masks:
    """Sink of the masks of one stream: counts them, those that differ from the one before, and bad ones."""

    __slots__ = ("_last", "_next", "events", "malformed", "switches")

    def __init__(self, after: Callable[[Any], None] | None = None) -> None:
        self.events = self.switches = self.malformed = 0
        self._last: tuple[bool, ...] | None = None
        self._next = after

    def __call__(self, value: Any) -> None:
        mask = parse_mask(value)
        if mask is None:
            self.malformed += 1
        else:
            self.events += 1
            if self._last is not None and mask != self._last:
                self.switches += 1
            self._last = mask
        if self._next is not None:
            self._next(value)


class ZeroingJudge(Judge):
    """Hit: a report says that no fallback was triggered. Fallback: it was (``triggered``), or it was
    asked for and no report came (``too_long`` above 8,192 max_tokens, else ``no_report``).

    A report that cannot be read is counted (``lz.malformed``) and gives no verdict. What it cannot
    know: which paths were cut and whether the answer suffered (the application reports quality);
    what the GPU saved (dcgm-exporter, when self-hosting).

    Memory: none beyond the call.
    """

    NAME = "zeroing"

    def begin(self, request: Request, facts: Facts) -> None:
        """Count the masks in streams of calls that asked."""
        asks = facts.stream and self._asks(request, facts) is not False
        if asks and not isinstance(facts.mask_sink, Masks):
            facts.mask_sink = Masks(facts.mask_sink)

    def judge(self, call: EndedCall) -> Result | None:
        """Conclude as the class says."""
        facts = call.facts
        if not facts.inference or not facts.llm_call:
            return None
        rows: list[MetricRow] = []
        self._masks(facts, rows)
        header = call.response_headers.get(self.markers["report"])
        if header is not None and succeeded(call):
            return self._judge_report(header, facts, rows)
        asked = self._asks(call.request, facts)
        if asked is None:
            return self._result("bypass", rows=rows)
        if not asked or not succeeded(call):
            return self._result(None, rows=rows)
        top = request_fields(facts)
        limit = finite_number(top.max_tokens) if top is not None else None
        too_long = limit is not None and limit > MAX_TOKENS
        return self._result("fallback", "too_long" if too_long else "no_report", rows)

    def _asks(self, request: Request, facts: Facts) -> bool | None:
        """Return whether the request asks for it; ``None``: it opts out."""
        value = request.headers.get(self.markers["asked"], "").strip().lower()
        if value == "enabled":
            return True
        if value == "disabled":
            return None
        if self.markers["context_type"] in request.headers:
            return True
        top = request_fields(facts)
        if top is None:
            return False
        return (top.zeroing_threshold, top.stability_window, top.impact_tolerance) != (None, None, None)

    def _masks(self, facts: Facts, rows: list[MetricRow]) -> None:
        sink = facts.mask_sink
        if isinstance(sink, Masks):
            counts = (
                (c.MALFORMED, ("mask",), float(sink.malformed)),
                (c.MASK_EVENTS, (), float(sink.events)),
                (c.MASK_SWITCHES, (), float(sink.switches)),
            )
            rows += [row for row in counts if row[2]]

    def _judge_report(self, header: str, facts: Facts, rows: list[MetricRow]) -> Result | None:
        report, good = parse_report(header)
        if not good:
            facts.malformed.append("report")
        if report is None:
            return self._result(None, rows=rows)
        if report.ratio is not None:
            rows.append((c.ZEROING_PARAMS_RATIO, (), report.ratio))
        if report.confidence is not None:
            rows.append((c.ZEROING_CONFIDENCE, (), report.confidence))
        if report.total is not None and report.zeroed is not None:
            rows.append((c.ZEROING_LAYERS, ("all",), float(report.total)))
            rows.append((c.ZEROING_LAYERS, ("zeroed",), float(report.zeroed)))
        decision = None if report.fallback is None else "fallback" if report.fallback else "hit"
        return self._result(decision, "triggered" if report.fallback else None, rows)
