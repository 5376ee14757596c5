"""All mechanisms of the table, in one shape; what a new one still lacks is named."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from lz_otel import catalogue
from lz_otel._judge import judge_class
from lz_otel._judge.base import Judge
from lz_otel._judge.signals import TABLE
from lz_otel.mechanisms import BY_NAME, FAMILIES, NAMES, REPLACES, REPLAYS
from tests.judge.ended_calls import ended_call, make

ROOT = Path(__file__).resolve().parents[2]


def forgotten(name: str) -> list[str]:
    """Which files a mechanism still lacks, or what they lack of it."""
    lacking = []
    asked_always = False
    try:
        asked_always = judge_class(name).ASKED_ALWAYS
    except LookupError as error:
        lacking.append(str(error))
    if not asked_always and not any(row.mechanism == name and row.wakes for row in TABLE):
        lacking.append(
            f"lz_otel/_judge/signals.py must have a row that wakes {name!r}, or its judge ASKED_ALWAYS"
        )
    files = [ROOT / "tests" / "judge" / name / "test_judge.py", ROOT / "tests" / "judge" / f"test_{name}.py"]
    test = next((file for file in files if file.exists()), None)
    if test is None:
        lacking.append(f"tests/judge/test_{name}.py must hold the tests of {name!r}")
    if test is None or "\ndef fill(judge: " not in test.read_text("utf-8"):
        lacking.append(
            f"tests/judge/test_{name}.py must have fill(judge), which puts in more than it may hold"
        )
    page = (ROOT / "docs" / "mechanisms.md").read_text("utf-8")
    if f"\n## {name}\n" not in page:
        lacking.append(f"docs/mechanisms.md must have a section '## {name}'")
    if not re.search(rf"^\| `{name}` \|.* (?:MB|nothing) \|$", page, re.MULTILINE):
        lacking.append(
            f"docs/mechanisms.md must have a row '| `{name}` | …' with the memory it takes at most"
        )
    return lacking


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_mechanism_is_forgotten(name: str) -> None:
    """Each row of the table has a judge, markers, tests, a bound of its memory and a place on the page."""
    lacking = forgotten(name)
    assert lacking == [], "\n".join(["write:", *lacking])


def test_what_is_forgotten_is_named() -> None:
    """A row that has nothing else is told each file that is to be written."""
    files = [text.split()[0] for text in forgotten("nothing")]
    assert files == [
        "lz_otel/_judge/nothing.py",
        "lz_otel/_judge/signals.py",
        "tests/judge/test_nothing.py",
        "tests/judge/test_nothing.py",
        "docs/mechanisms.md",
        "docs/mechanisms.md",
    ]


@pytest.mark.parametrize("name", ["nothing", "gateways", "base"])
def test_a_module_without_a_judge_is_refused(name: str) -> None:
    """A name without a module, or with one that has no such judge, is an error that names the file."""
    with pytest.raises(LookupError, match=rf"lz_otel/_judge/{name}\.py must hold the judge of '{name}'"):
        judge_class(name)


@pytest.mark.parametrize("name", NAMES)
def test_one_shape(name: str) -> None:
    """Each is a `Judge` that is made from the table alone, says what it does, and has the table's effect."""
    cls = judge_class(name)
    assert issubclass(cls, Judge)
    assert cls.NAME == name
    assert (inspect.getdoc(cls) or "") != (inspect.getdoc(Judge) or "")
    judge = make(name, counted=None)
    judge.begin(ended_call().request, ended_call().facts)
    assert judge.replays is (BY_NAME[name].effect == REPLAYS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("status", "ending"), [(None, "error"), (500, "error"), (200, "abandoned"), (200, "cancelled")]
)
def test_calls_without_markers_say_nothing(name: str, status: int | None, ending: str) -> None:
    """A call that shows no marker of a mechanism has no measurement of it (a Claude call may miss)."""
    result = make(name, counted=None).judge(ended_call(status=status, ending=ending))  # type: ignore[arg-type]
    assert result is None or (
        result.verdict is not None and result.verdict.decision == "miss" and not result.measurements
    )


MARKED = {
    "symbolic": ({}, {"x-anthropic-layer": "zero"}),
    "pruning": ({"x-anthropic-layer-zero": "enabled"}, {"x-anthropic-layer-zero-pruned-tokens": "5"}),
    "intent": ({"anthropic-sampling-intent": "creative"}, {"x-anthropic-layer-zero": "true"}),
    "zeroing": ({"anthropic-layer-zero": "enabled"}, {}),
    "scheduling": ({"x-anthropic-layer-hint": "zero-latency"}, {"x-anthropic-layer-served": "zero"}),
}


def test_every_family_is_tried() -> None:
    """The calls above hold one of each family, and of whatever else replaces inference."""
    assert tuple(MARKED) == FAMILIES
    assert {name for name in NAMES if BY_NAME[name].effect == REPLACES} <= set(MARKED)


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize("field", ["inference", "llm_call"])
def test_only_inference_is_judged(name: str, field: str) -> None:
    """Embeddings, token counting and polling are no calls that a family could serve."""
    judge = make(name, counted=None)
    call = ended_call(*MARKED[name])
    assert judge.judge(call) is not None
    setattr(call.facts, field, False)
    assert judge.judge(call) is None


def test_embeddings_may_come_from_a_store() -> None:
    """A gateway's store may answer for embeddings; what is no call at all is not judged."""
    judge = make("response_cache", counted=None)
    call = ended_call({}, {"helicone-cache": "HIT"}, inference=False)
    assert judge.judge(call) is not None
    call.facts.llm_call = False
    assert judge.judge(call) is None


@pytest.mark.parametrize("name", MARKED)
def test_neither_prices_nor_counts_are_needed(name: str) -> None:
    """Without prices savings are unknown, without token counting its sources are silent; nothing fails."""
    result = make(name, counted=None).judge(ended_call(*MARKED[name], output_tokens=0))
    assert result is not None
    assert result.saved_usd is None


@pytest.mark.parametrize("name", NAMES)
def test_reasons_are_in_the_catalogue(name: str) -> None:
    """The reasons of a fallback that a module names are those that the catalogue lists for it."""
    source = inspect.getsource(inspect.getmodule(judge_class(name)))  # type: ignore[arg-type]
    for reason in catalogue.FALLBACK_REASONS.get(name, ()):
        told_by_operations = name == "symbolic"
        told_by_gateways = name == "response_cache"
        assert told_by_operations or told_by_gateways or f'"{reason}"' in source
