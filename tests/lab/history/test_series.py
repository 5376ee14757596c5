"""Series of a made-up process: labels of the catalogue only."""

from __future__ import annotations

import pytest

from lz_otel import catalogue
from lz_otel.errors import CatalogueError
from lz_otel.lab.history._series import Process


def test_label_outside_the_catalogue_is_refused() -> None:
    """The generator cannot invent a label or a value."""
    process = Process({"job": "a"})
    with pytest.raises(CatalogueError, match="colour"):
        process.add(catalogue.ATTEMPTS, 1, colour="red")
    with pytest.raises(CatalogueError, match="teapot"):
        process.add(catalogue.ATTEMPTS, 1, status="teapot")
