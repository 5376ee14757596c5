"""All mechanisms of the contract, in one shape."""

from __future__ import annotations

import inspect

import pytest

from lz_otel import catalogue
from lz_otel._judge import MECHANISMS, signals
from lz_otel._judge.base import Mechanism
from tests.judge.exchanges import call


def test_every_mechanism_is_registered() -> None:
    """The registry holds the seven names of the catalogue, in its order, and nothing else."""
    assert tuple(MECHANISMS) == catalogue.MECHANISMS


@pytest.mark.parametrize("name", catalogue.MECHANISMS)
def test_one_shape(name: str) -> None:
    """Each is a `Mechanism` that is made from the table alone, and says so when it needs `begin`."""
    cls = MECHANISMS[name]
    assert issubclass(cls, Mechanism)
    assert (cls.NAME, cls.BEGINS) == (name, "begin" in vars(cls))
    assert (inspect.getdoc(cls) or "") != (inspect.getdoc(Mechanism) or "")
    cls(signals.load()).begin(call().request, call().facts)


@pytest.mark.parametrize("name", catalogue.MECHANISMS)
@pytest.mark.parametrize(("status", "ending"), [(None, "error"), (500, "error"), (200, "abandoned"), (200, "cancelled")])
def test_calls_without_markers_say_nothing(name: str, status: int | None, ending: str) -> None:
    """A call that shows no marker of a mechanism has no measurement of it (a Claude call may miss)."""
    result = MECHANISMS[name](signals.load()).judge(call(status=status, ending=ending))  # type: ignore[arg-type]
    assert result is None or (result.verdict is not None and result.verdict.decision == "miss" and not result.measurements)


@pytest.mark.parametrize("name", catalogue.MECHANISMS)
def test_reasons_are_in_the_catalogue(name: str) -> None:
    """The reasons of a fallback that a module names are those that the catalogue lists for it."""
    source = inspect.getsource(inspect.getmodule(MECHANISMS[name]))  # type: ignore[arg-type]
    for reason in catalogue.FALLBACK_REASONS.get(name, ()):
        told_by_operations = name == "symbolic"
        told_by_gateways = name == "response_cache"
        assert told_by_operations or told_by_gateways or f'"{reason}"' in source
