"""Colours of dashboards: one for each value of a closed list."""

from __future__ import annotations

import pytest

from lz_otel import mechanisms
from lz_otel.bundle.dashboards import style
from lz_otel.errors import CatalogueError


def test_every_mechanism_has_a_hue_of_its_own() -> None:
    """A mechanism's colour comes from its row in the table, and no two share one."""
    assert set(mechanisms.NAMES) == set(style.MECHANISMS)
    assert len(mechanisms.NAMES) == len(set(style.MECHANISMS.values()))


@pytest.mark.parametrize("values", [("ok", "error", "new"), ("ok",)])
def test_a_value_without_a_colour_is_named(values: tuple[str, ...]) -> None:
    """A value without a colour, or a colour without a value, is named with its table."""
    with pytest.raises(CatalogueError) as caught:
        style.complete("ENDINGS", {"ok": "green", "error": "red"}, values)
    assert "ENDINGS" in str(caught.value)
    assert ("'new'" if "new" in values else "'error'") in str(caught.value)
