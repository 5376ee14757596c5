"""Growth of a fleet: what is asked of the server."""

from __future__ import annotations

from lz_otel.lab.history.growth import resolve
from lz_otel.mechanisms import FAMILIES


def test_no_variable_is_left() -> None:
    """Each of Grafana's variables is replaced, a family by one where only one can be chosen."""
    expr = 'rate(a{mechanism="$mechanism", lz_route=~"$route", m=~"$mechanism"}[$__rate_interval]) > $slo'
    chosen = "|".join(FAMILIES)
    expected = f'rate(a{{mechanism="{FAMILIES[0]}", lz_route=~".*", m=~"{chosen}"}}[240s]) > 0.995'
    assert expected == resolve(expr, 3600, 60)
