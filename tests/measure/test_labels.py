"""Open attributes stay few, and good names are never pushed out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lz_otel._measure.labels import OTHER, Labels, clean


def test_first_come_first_served() -> None:
    """The first hundred models keep their names for ever, the rest are ``other``."""
    labels = Labels()
    names = [labels.model(f"model-{i}") for i in range(5000)]
    assert names[:100] == [f"model-{i}" for i in range(100)]
    assert set(names[100:]) == {OTHER}
    assert labels.model("model-7") == "model-7"


def test_known_models_are_always_admitted() -> None:
    """A model of the price table keeps its name, whatever was invented before."""
    labels = Labels(lambda model: model == "claude-opus-5")
    for i in range(500):
        labels.model(f"made-up-{i}")
    assert labels.model("claude-opus-5") == "claude-opus-5"
    assert labels.model("made-up-400") == OTHER


def test_groups_and_routes_have_caps_of_their_own() -> None:
    """Ten groups, a hundred routes; empty means "does not apply" and is no name."""
    labels = Labels()
    commons = {labels.common("chat", "anthropic", "m", f"r{i}", f"g{i}") for i in range(300)}
    assert len({common[3] for common in commons}) == 101
    assert len({common[4] for common in commons}) == 11
    assert labels.common("chat", "anthropic", "m", "", "")[3:] == ("", "")


def test_what_is_too_long_for_a_label_is_not_kept() -> None:
    """Names that a label cannot hold are ``other`` and are not kept; short ones are looked up once."""
    labels = Labels()
    short = labels.common("chat", "anthropic", "m", "r", "g")
    for place in range(5):
        values = ["chat", "anthropic", "m", "r", "g"]
        values[place] = "x" * 129
        labels.common(*values)
        labels.model(values[2])
        labels.other("metric", 20, values[3])
    assert short is labels.common("chat", "anthropic", "m", "r", "g")
    assert labels.common("chat", "anthropic", "m", "x" * 129, "g") == ("chat", "anthropic", "m", OTHER, "g")
    assert 128 >= max(len(text) for text in texts(labels))


def texts(found: object) -> list[str]:
    """All text that an object holds, keys included."""
    if isinstance(found, str):
        return [found]
    if isinstance(found, dict):
        found = [*found, *found.values()]
    elif hasattr(found, "__slots__"):
        found = [getattr(found, name) for name in found.__slots__]
    elif hasattr(found, "__dict__") and not callable(found):
        found = vars(found)
        return texts(found)
    if isinstance(found, (list, tuple)):
        return [text for one in found for text in texts(one)]
    return []


@given(st.text())
def test_values_are_printable_and_short(value: str) -> None:
    """A label value is at most 128 printable characters."""
    found = clean(value)
    assert len(found) <= 128
    assert all(ch.isprintable() for ch in found)
    assert found in (value, OTHER)


def test_the_longest_value_has_128_characters() -> None:
    """A value of 128 characters stays as it is, and one more is too long."""
    assert clean("x" * 128) == "x" * 128
    assert clean("x" * 129) == OTHER


def test_what_cannot_be_a_label_takes_no_room() -> None:
    """Values that are ``other`` by themselves do not use up the cap."""
    labels = Labels()
    assert {labels.model(f"\n{number}") for number in range(200)} == {OTHER}
    assert labels.model("model") == "model"


def test_known_models_are_many_but_not_endless() -> None:
    """A price table that knows every name admits four caps of them at most."""
    labels = Labels(lambda _: True)
    admitted = {labels.model(f"model-{number}") for number in range(1000)} - {OTHER}
    assert 390 <= len(admitted) <= 400


def test_what_calls_name_is_kept_up_to_a_limit() -> None:
    """However many names there are, those that are looked up once are at most 4096."""
    labels = Labels()
    for number in range(5000):
        labels.common("chat", "anthropic", f"m{number}", "r", "g")
    assert 5000 > len([text for text in texts(labels) if text.startswith("m")]) >= 4096
