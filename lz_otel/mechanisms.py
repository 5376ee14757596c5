"""The table of mechanisms: one row for each way to serve a call without the full price of inference.

Code, dashboards, alerts, the made-up history and the docs ask this table; none of them knows a mechanism by
its name. Adding one: a row here, its wire markers in ``_judge/signals.py``, its judge in ``_judge/``, its
test and its section in ``docs/mechanisms.md``. ``tests/judge/test_judge.py`` names what is still missing.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ALL", "BY_NAME", "FAMILIES", "NAMES", "REPLACES", "REPLAYS", "SHORTENS", "MechanismRow", "of_effect",
]  # fmt: skip

REPLAYS = "replays"
"""A stored answer was sent again: no model ran, nothing is counted twice, other mechanisms are silent."""
REPLACES = "replaces"
"""A fast engine answered instead of a full inference."""
SHORTENS = "shortens"
"""A full inference was made cheaper: such a hit does not put a call on the fast path."""


class MechanismRow(NamedTuple):
    """One mechanism.

    Attributes:
        name: value of the attribute ``mechanism``.
        source: the article's number, or who documents it.
        mark: ``D`` documented by vendors, ``A`` stated only in an article, ``C`` chosen by lz-otel.
        effect: what a hit means: ``replays``, ``replaces`` or ``shortens``.
        sentence: what it is, for the docs.
        colour: its hue on dashboards.
        reasons: why it may fall back (the closed list of ``reason``); empty where it cannot.
    """

    name: str
    source: str
    mark: str
    effect: str
    sentence: str
    colour: str
    reasons: tuple[str, ...] = ()


ALL = (
    MechanismRow(
        "symbolic", "article 000", "A", REPLACES,
        "the answer is computed by rules instead of inference", "#73bf69",
        ("schema_invalid", "hedge_lost", "fast_timeout", "rejected", "other"),
    ),
    MechanismRow(
        "pruning", "article 001", "A", SHORTENS,
        "tokens that do not matter are cut from the prompt", "#b877d9",
        ("rejected", "no_report", "nothing_pruned"),
    ),
    MechanismRow(
        "intent", "article 002", "A", REPLACES,
        "the sampling intent is declared, decoding takes a shorter path", "#5794f2",
        ("wrong_header", "no_beta", "not_streaming", "unsupported_model", "silent", "temperature_rejected"),
    ),
    MechanismRow(
        "zeroing", "article 003", "A", REPLACES,
        "layers that do not matter for the request are zeroed", "#f2cc0c",
        ("triggered", "too_long", "no_report"),
    ),
    MechanismRow(
        "scheduling", "article 004", "A", REPLACES,
        "the state of similar requests is shared by the server", "#37c8c3",
        ("served_standard", "not_served"),
    ),
    MechanismRow(
        "prompt_cache", "vendors", "D", SHORTENS,
        "the provider reads a known prefix from its cache", "#8ab8ff",
    ),
    MechanismRow(
        "response_cache", "gateways", "D", REPLAYS, "a gateway answers from its own cache", "#c8f2c2",
        ("gateway_fallback", "gateway_retry"),
    ),
)  # fmt: skip

NAMES = tuple(row.name for row in ALL)
BY_NAME = {row.name: row for row in ALL}
FAMILIES = tuple(row.name for row in ALL if row.mark == "A")
"""The Layer Zero families: stated only in the articles."""


def of_effect(*effects: str) -> tuple[str, ...]:
    """Return the names of the mechanisms with one of these effects, in the table's order."""
    return tuple(row.name for row in ALL if row.effect in effects)
