"""What the tests of several HTTP libraries share: the server, and what is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.capture.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel.testing import Capture
    from tests.capture.serving import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The server whose ways to answer are in the path."""
    with served() as made:
        yield made


@pytest.fixture
def seen() -> Iterator[Capture]:
    """What is measured; no fault of ours is passed over."""
    from lz_otel.testing import capture

    with capture(strict=True) as made:
        yield made
