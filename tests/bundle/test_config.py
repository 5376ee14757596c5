"""The configuration of the bundle: a TOML file, checked key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lz_otel.bundle.config import (
    DASHBOARD_FILES,
    Config,
    Slo,
    burn_windows,
    dashboard_uid,
    duration,
    load,
    parse,
    seconds,
    settings,
)
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def test_without_a_file_the_defaults_are_those_of_the_articles() -> None:
    """The articles' thresholds are the defaults."""
    t = Config().thresholds
    assert (0.70, 5.0, 0.975, 0.25, 0.40, 0.999, 3.0, 0.2, 0.7, 0.05, 0.30, 45.0, 0.85) == (
        t.hit_rate_low,
        t.fallbacks_per_minute,
        t.effectiveness_low,
        t.pruned_share_low,
        t.pruned_share_high,
        t.consistency_low,
        t.creative_surge,
        t.params_ratio_low,
        t.params_ratio_high,
        t.zeroing_fallback_high,
        t.vendor_cache_hit_low,
        t.decompression_p95_ms,
        t.anchor_efficiency_low,
    )


def test_a_file_overrides_what_it_names(tmp_path: Path) -> None:
    """A TOML file changes its keys and leaves the rest alone."""
    path = tmp_path / "my.toml"
    path.write_text('extra_labels = ["cluster"]\n[slo]\nobjective = 0.99\n[selectors]\nenv = "~prod.*"\n')
    config = load(path)
    assert (("job", "cluster"), 0.01, 0.70) == (config.by, config.slo.allowed, config.thresholds.hit_rate_low)
    assert {"env"} == set(config.builder().scope)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"colour": 1}, "colour=1 cannot be used: expected one of the keys selectors"),
        (
            {"thresholds": {"hit_rate_low": 70}},
            "thresholds.hit_rate_low=70 cannot be used: expected a number from 0 to 1",
        ),
        ({"thresholds": {"hit_rate_low": True}}, "thresholds.hit_rate_low=True"),
        ({"thresholds": {"pruned_share_low": 0.5}}, "at most thresholds.pruned_share_high (0.4)"),
        ({"slo": 0.99}, "slo=0.99 cannot be used: expected a table"),
        (
            {"time": {"windows": {"5m": "soon"}}},
            "time.windows.5m='soon' cannot be used: expected a duration such as 15s",
        ),
        ({"extra_labels": ["a-b"]}, "extra_labels[0]='a-b' cannot be used: expected a name of a label"),
        ({"extra_labels": "cluster"}, "expected a list of strings"),
        ({"selectors": "env"}, "expected a table of strings"),
        ({"urls": {"runbook": "https://example.org/"}}, "an address with {alert} in it"),
        ({"urls": {"grafana": "http://g/"}}, "without the last slash"),
    ],
)
def test_errors_name_key_value_and_what_is_allowed(data: dict[str, object], text: str) -> None:
    """A wrong key or value is refused with its full name."""
    with pytest.raises(ConfigurationError) as caught:
        parse(data)
    assert text in str(caught.value)


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    """A missing or broken file is a configuration error too."""
    with pytest.raises(ConfigurationError):
        load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("= 1")
    with pytest.raises(ConfigurationError):
        load(tmp_path / "bad.toml")


def test_windows_are_scaled_together_or_set_one_by_one() -> None:
    """Tests shorten all windows by a factor, or one by name; 0 stays 0."""
    time = parse({"time": {"scale": 0.1, "shortest": "3s", "windows": {"5m": "7s"}}}).time
    assert ["7s", "6m", "3s", "0m"] == [time(w) for w in ("5m", "1h", "10s", "0m")]


@pytest.mark.parametrize("text", ["90s", "5m", "2h", "3d", "250ms"])
def test_durations_survive_the_way_there_and_back(text: str) -> None:
    """A duration and its seconds say the same."""
    assert seconds(text) == seconds(duration(seconds(text)))


def test_burn_factors_are_computed() -> None:
    """The workbook's factors come out of budget, period and window."""
    assert [14.4, 6.0, 3.0, 1.0] == [w.factor for w in burn_windows(Slo())]


def test_uids_never_change() -> None:
    """Alerts and bookmarks link to the dashboards by these."""
    assert "7cc47e25da849548850dab0528ec486e" == dashboard_uid("overview")
    assert 7 == len({dashboard_uid(name) for name in DASHBOARD_FILES})


def test_every_setting_says_what_it_means() -> None:
    """Each setting has a meaning and a mark, for the documentation."""
    rows = list(settings())
    assert len(rows) > 80
    assert [] == [key for key, _, mark, doc in rows if mark not in ("A", "C", "D") or len(doc) < 10]


def test_errors_of_a_file_name_it(tmp_path: Path) -> None:
    """A wrong value in a file is named with the option and the file."""
    path = tmp_path / "my.toml"
    path.write_text("[slo]\nobjective = 2\n")
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    expected = f"--config ({path}) slo.objective=2 cannot be used: expected a number from 0.5 to 0.99999"
    assert expected == str(caught.value)
