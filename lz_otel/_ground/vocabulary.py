"""The vocabulary of the catalogue: what a metric and an attribute are, names, closed lists, buckets.

Every value list here is closed: nothing else is ever a label value of those attributes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lz_otel.mechanisms import ALL, NAMES

COUNTER, UP_DOWN, GAUGE, HISTOGRAM = "counter", "updowncounter", "gauge", "histogram"

MECHANISMS = NAMES
VERDICTS = ("hit", "miss", "fallback", "bypass")
ENDINGS = ("ok", "error", "cancelled", "abandoned", "incomplete")
GENAI_OPERATIONS = ("chat", "generate_content", "text_completion", "embeddings", "other")

# Attempts: what an HTTP attempt came to. Statuses outside the list fall into their class.
TRANSPORT_ERRORS = (
    "connect_error", "connect_timeout", "read_error", "read_timeout", "write_error", "write_timeout",
    "pool_timeout", "protocol_error", "tls_error", "decode_error", "cancelled", "other_error",
)  # fmt: skip
STATUSES = (
    "200", "400", "401", "402", "403", "404", "408", "409", "413", "422", "429", "500", "502", "503", "504",
    "529", "1xx", "2xx", "3xx", "4xx", "5xx", *TRANSPORT_ERRORS,
)  # fmt: skip
RETRY_REASONS = (*STATUSES, "unknown")
USAGE_MISSING = (
    "ended_early", "not_requested", "not_sent", "malformed", "compressed", "later", "too_large",
)  # fmt: skip
MISS_REASONS = (
    "first_use", "expired", "model_changed", "tools_changed", "system_changed", "history_changed",
    "below_minimum", "no_breakpoint", "unknown",
)  # fmt: skip
# Why a mechanism fell back. The keys are the mechanisms that can.
FALLBACK_REASONS = {row.name: row.reasons for row in ALL if row.reasons}
ALL_FALLBACK_REASONS = tuple(sorted({r for rs in FALLBACK_REASONS.values() for r in rs}))
# Why one model stepped in for another within an operation.
MODEL_FALLBACK_REASONS = (
    "overloaded", "rate_limited", "spend_limit", "timeout", "connection", "server_error", "client_error",
    "rejected", "other",
)  # fmt: skip

DURATION_BUCKETS = (
    0.005, 0.010, 0.015, 0.020, 0.025, 0.030, 0.040, 0.050, 0.075, 0.100, 0.150, 0.200, 0.300,
    0.400, 0.600, 0.800, 1.0, 1.2, 1.6, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0,
    320.0, 640.0,
)  # fmt: skip
CHUNK_BUCKETS = (
    0.001, 0.0025, 0.005, 0.010, 0.015, 0.020, 0.030, 0.040, 0.050, 0.075, 0.100, 0.150, 0.200,
    0.300, 0.500, 0.750, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
RATE_BUCKETS = (
    1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0, 125.0, 150.0, 200.0,
    300.0, 400.0, 600.0, 1000.0, 2000.0, 5000.0,
)  # fmt: skip
RATIO_BUCKETS = tuple(round(0.05 * i, 2) for i in range(21))
QUALITY_BUCKETS = (
    *(round(0.1 * i, 1) for i in range(9)),
    *(round(0.8 + 0.01 * i, 2) for i in range(1, 21)),
)
CALLS_BUCKETS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0)
OVERHEAD_BUCKETS = (
    0.000010, 0.000020, 0.000030, 0.000050, 0.000075, 0.000100, 0.000150, 0.000200, 0.000300,
    0.000500, 0.001, 0.002, 0.005, 0.010, 0.050, 0.100,
)  # fmt: skip
TOKEN_BUCKETS = tuple(float(4**i) for i in range(14))


class Attribute(NamedTuple):
    """One attribute of a metric: a closed list of values, or an open set with a cap.

    Attributes:
        name: OpenTelemetry name.
        values: the closed list, or ``()`` for an open set.
        cap: most distinct values per process of an open set; the rest become ``other``.
        doc: one line of meaning.
        optional: an empty value is normal and means "does not apply".
    """

    name: str
    values: tuple[str, ...] = ()
    cap: int = 0
    doc: str = ""
    optional: bool = False

    @property
    def label(self) -> str:
        """Return the Prometheus label name."""
        return label_name(self.name)


class Metric(NamedTuple):
    """One metric.

    Attributes:
        name: OpenTelemetry name.
        kind: ``counter``, ``updowncounter``, ``gauge`` or ``histogram``.
        unit: UCUM unit of OpenTelemetry (``s``, ``{token}``, ``{USD}`` ...).
        attributes: all attributes, in the order in which a Measurement gives their values.
        doc: one line of meaning.
        mark: ``D``, ``A`` or ``C`` (see the module text).
        buckets: upper bounds, histograms only.
        mechanism: the mechanism it belongs to; it has no series before that one is seen.
        convention: ``""`` always, ``"latest"`` or ``"1.36"`` for the sets of GenAI conventions.
    """

    name: str
    kind: str
    unit: str
    attributes: tuple[Attribute, ...]
    doc: str
    mark: str = "C"
    buckets: tuple[float, ...] = ()
    mechanism: str = ""
    convention: str = ""

    @property
    def prometheus(self) -> str:
        """Return the Prometheus name without ``_bucket``, ``_sum``, ``_count``."""
        return prometheus_name(self.name, self.unit, self.kind)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the Prometheus label names, in order."""
        return tuple(a.label for a in self.attributes)

    @property
    def starts_at_zero(self) -> bool:
        """Return whether it starts at 0, as counters of closed lists do for ``increase``."""
        extra = [a for a in self.attributes if a not in COMMON]
        return self.kind == COUNTER and all(a.values for a in extra)


_UNIT_WORDS = {"s": "seconds", "By": "bytes", "ms": "milliseconds", "%": "percent"}


def label_name(name: str) -> str:
    """Translate an attribute name into a Prometheus label name."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def prometheus_name(name: str, unit: str, kind: str) -> str:
    """Translate by the standard OpenTelemetry rules (annotations in braces add nothing)."""
    translated = re.sub(r"_+", "_", re.sub(r"[^a-zA-Z0-9_:]", "_", name))
    main, _, per = unit.partition("/")
    words = []
    if main and not main.startswith("{"):
        words.append(_UNIT_WORDS.get(main, main))
    if per:
        words.append("per_" + {"s": "second"}.get(per, per))
    if kind == COUNTER:
        words.append("total")
    for word in words:
        if not translated.endswith("_" + word):
            translated += "_" + word
    return translated


# --- attributes -----------------------------------------------------------------------------

GENAI_OPERATION = Attribute("gen_ai.operation.name", GENAI_OPERATIONS, doc="what kind of call it was")
PROVIDER = Attribute("gen_ai.provider.name", cap=50, doc="who answers the API")
REQUEST_MODEL = Attribute("gen_ai.request.model", cap=100, doc="the model that was asked for")
ROUTE = Attribute("lz.route", cap=100, doc="name of the operation", optional=True)
GROUP = Attribute("lz.group", cap=10, doc="A/B group or roll-out stage", optional=True)
COMMON = (GENAI_OPERATION, PROVIDER, REQUEST_MODEL, ROUTE, GROUP)
