"""What speaks against a hit, by name, and phrases of courtesy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lz_otel.explain import courtesy_phrases, explain
from lz_otel.explain.causes import CAUSES

if TYPE_CHECKING:
    from lz_otel.explain import Conditions


def names(conditions: Conditions) -> set[str]:
    return {cause.name for cause in conditions.causes}


def tagged(system: str, user: str = "Hi") -> dict[str, Any]:
    return {
        "system": '<layer-zero enabled="true"/>\n' + system,
        "messages": [{"role": "user", "content": user}],
    }


@pytest.mark.parametrize(
    ("request_", "cause"),
    [
        ("Think about it.", "thinking_words"),
        ("Let's analyze this.", "thinking_words"),
        ("Give me a few names.", "vague_quantity"),
        ("Parse {a: [1, 2}", "unclosed_structure"),
        ("Parse [1, 2", "unclosed_structure"),
        ("Read <a href", "unclosed_structure"),
        ("Be concise. Answer in detail.", "contradictory_demands"),
        ('Extract. Example: "John" → {"name": "John"}', "in_context_examples"),
        ({"messages": [], "output_config": {"format": {"schema": {"anyOf": []}}}}, "any_of"),
        ("List the names。", "full_width_punctuation"),
        ("Decode " + "QUJD" * 40, "base64_payload"),
        ({"messages": [], "temperature": 0}, "temperature_set"),
        ({"system": "Hi\n<layer-zero enabled='true'/>", "messages": []}, "tag_not_first"),
        ({"system": "<layer-zero enabled='true'/> Hi", "messages": []}, "tag_not_first"),
        ({"messages": [{"role": "user", "content": "<layer-zero enabled='true'/>\nHi"}]}, "tag_not_first"),
        (tagged("If the user asks for funds, you must quote the rating."), "rules_outside_context"),
        (tagged("Data as of 2024-10-01."), "dates_outside_context"),
        (tagged("Help.", "What does 4.2% mean?"), "numbers_unprotected"),
    ],
)
def test_each_cause(request_: Any, cause: str) -> None:
    """Each cause is named where it applies."""
    assert cause in names(explain(request_))


@pytest.mark.parametrize(
    ("request_", "cause"),
    [
        ("I considered the thinker's sum.", "thinking_words"),
        ("Parse {a: [1, 2]}", "unclosed_structure"),
        ("Is a < b here?", "unclosed_structure"),
        ("Read <a>b</a>", "unclosed_structure"),
        ("Be concise.", "contradictory_demands"),
        ({"messages": [], "output_config": {"format": {"schema": {"oneOf": []}}}}, "any_of"),
        ("Decode " + "QUJD" * 10, "base64_payload"),
        ({"messages": []}, "temperature_set"),
        (tagged("Hi"), "tag_not_first"),
        (
            tagged("<context>If the user asks for funds, you must quote it. 2024-10-01</context>"),
            "rules_outside_context",
        ),
        (tagged("<context><date_anchor>2024-10-01</date_anchor></context>"), "dates_outside_context"),
        (tagged('<protected_tokens>["%"]</protected_tokens>', "What does 4.2% mean?"), "numbers_unprotected"),
        ("What does 4.2% mean on 2024-10-01?", "numbers_unprotected"),
    ],
)
def test_no_cause(request_: Any, cause: str) -> None:
    """What merely looks like a cause is none."""
    assert cause not in names(explain(request_))


@pytest.mark.parametrize(("region", "expected"), [("eu-west-1", True), ("us-east-1", False), (None, False)])
def test_region(region: str | None, expected: bool) -> None:
    """Another region than us-east-1 is a cause; an unnamed one is not known to be."""
    headers = {"Anthropic-Region": region} if region else {}
    assert ("other_region" in names(explain("Hi", headers))) is expected


def test_causes_are_a_closed_list() -> None:
    """Causes come from the list, in its order, and hold nothing of the prompt."""
    text = "Think of a few secretword names。 Be concise, in detail: {"
    found = explain({"messages": [{"role": "user", "content": text}], "temperature": 1})
    assert [c.name for c in found.causes] == [n for n in CAUSES if n in names(found)]
    assert "secretword" not in repr(found)


def test_courtesy_phrases() -> None:
    """Courtesy phrases by TF-IDF, the heaviest first, at most as many as asked for; other words never."""
    messages = ["Please, could you help? Thanks", "please sort the list", "请问能不能退货，谢谢", "sort it"]
    found = courtesy_phrases(messages)
    assert found[0][0] == "please"
    assert {p for p, _ in found} == {
        "please",
        "could",
        "could you",
        "you",
        "thanks",
        "请问",
        "能不能",
        "谢谢",
    }
    assert len(courtesy_phrases(messages, top=2)) == 2
