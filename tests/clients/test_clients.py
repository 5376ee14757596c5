"""Each client of the table, at its real library; and the page that says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.clients.api import served
from tests.clients.cases import CASES
from tests.clients.outcome import expected, outcome, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.cases import Case

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served() as made:
        yield made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_call(case: Case, url: str) -> None:
    """One call, however many attempts; exact tokens; ended well; nothing active, nothing failed."""
    assert expected(case) == outcome(case, url)


def test_the_page_says_what_was_measured() -> None:
    """The table of docs/clients.md is of these versions (``make clients`` writes it)."""
    assert table() in PAGE.read_text()
