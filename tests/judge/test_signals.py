"""One table of wire markers: what wakes a mechanism, and what may be overridden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel._judge import judge_class, signals
from lz_otel._judge.signals import TABLE
from lz_otel.errors import ConfigurationError
from lz_otel.mechanisms import BY_NAME, FAMILIES, NAMES
from tests.judge.ended_calls import body, ended_call

if TYPE_CHECKING:
    from pathlib import Path

TAG = '<layer-zero enabled="true" prune_ratio="0.32"/>\nHi'


def woken(
    request_headers: dict[str, str] | None = None,
    response_headers: dict[str, str] | None = None,
    own: tuple[str, str] | None = None,
    **more: Any,
) -> set[str]:
    call = ended_call(request_headers, response_headers, **more)
    return set(signals.load(None, own).awake(call.request, call.response_headers, call.facts))


@pytest.mark.parametrize(
    ("request_headers", "response_headers", "request_", "expected"),
    [
        ({}, {"x-anthropic-layer": "zero"}, {}, {"symbolic"}),
        ({}, {"x-anthropic-zero-latency": "21"}, {}, {"symbolic"}),
        ({"anthropic-region": "us-east-1"}, {}, {}, set()),
        ({"x-anthropic-layer-zero": "enabled"}, {}, {}, {"pruning"}),
        ({}, {"x-anthropic-layer-zero-pruned-tokens": "5"}, {}, {"pruning"}),
        ({}, {"x-anthropic-layer-zero-context-preservation-ms": "5"}, {}, {"pruning"}),
        ({}, {}, {"system": TAG}, {"pruning"}),
        ({}, {}, {"system": [{"type": "text", "text": TAG}]}, {"pruning"}),
        ({}, {}, {"messages": [{"role": "system", "content": TAG}]}, {"pruning"}),
        ({}, {}, {"messages": [{"role": "user", "content": TAG}]}, set()),
        ({}, {}, {"system": "x" * 300 + TAG}, set()),
        ({"anthropic-sampling-intent": "creative"}, {}, {}, {"intent"}),
        ({"x-anthropic-sampling-intent": "creative"}, {}, {}, {"intent"}),
        ({}, {"x-anthropic-layer-zero": "true"}, {}, {"intent"}),
        ({}, {"x-anthropic-sampling-intent": "creative"}, {}, {"intent"}),
        ({"anthropic-beta": "tools-2024-08-06"}, {}, {"stream": True}, set()),
        ({"anthropic-layer-zero": "enabled"}, {}, {}, {"zeroing"}),
        ({"anthropic-context-type": "code"}, {}, {}, {"zeroing"}),
        ({}, {"x-anthropic-layer-zero-report": "e30="}, {}, {"zeroing"}),
        ({}, {}, {"zeroing_threshold": 1e-5}, {"zeroing"}),
        ({}, {}, {"stability_window": 10}, {"zeroing"}),
        ({}, {}, {"impact_tolerance": 0.1}, {"zeroing"}),
        ({}, {}, {"user_segment": "vip"}, set()),
        ({}, {}, {"messages": [{"role": "user", "content": '"zeroing_threshold": 1'}]}, set()),
        ({"x-anthropic-layer-hint": "legacy"}, {}, {}, {"scheduling"}),
        ({"x-anthropic-precision-mode": "fp16-deterministic"}, {}, {}, {"scheduling"}),
        ({"x-anthropic-cache-policy": "{}"}, {}, {}, {"scheduling"}),
        ({}, {"x-anthropic-layer-served": "standard"}, {}, {"scheduling"}),
        ({}, {"x-anthropic-trace-id": "t"}, {}, {"scheduling"}),
        ({"anthropic-version": "2024-10-22"}, {}, {}, set()),
        ({}, {"cf-aig-cache-status": "MISS"}, {}, {"response_cache"}),
        ({}, {"helicone-cache": "HIT"}, {}, {"response_cache"}),
        ({}, {"x-portkey-cache-status": "MISS"}, {}, {"response_cache"}),
        ({}, {"x-portkey-cache-status": "DISABLED"}, {}, set()),
        ({}, {"x-litellm-cache-key": "k"}, {}, {"response_cache"}),
        ({}, {"x-openrouter-cache-status": "MISS"}, {}, {"response_cache"}),
        ({}, {"cache-status": "A; fwd=uri-miss"}, {}, {"response_cache"}),
        ({}, {"cache-status": "CDN; fwd=bypass"}, {}, set()),
        ({}, {"x-cache-status": "Miss"}, {}, {"response_cache"}),
        ({}, {"x-cache": "HIT"}, {}, {"response_cache"}),
        ({}, {"x-cache": "Miss from cloudfront"}, {}, set()),
        ({}, {"cf-cache-status": "DYNAMIC", "age": "3"}, {}, set()),
        ({}, {"x-litellm-attempted-retries": "0", "x-litellm-attempted-fallbacks": "0"}, {}, set()),
        ({}, {"x-litellm-attempted-retries": "1"}, {}, {"response_cache"}),
        ({}, {"cf-aig-step": "0"}, {}, set()),
        ({}, {"cf-aig-step": "1"}, {}, {"response_cache"}),
        (
            {"x-api-key": "k", "anthropic-version": "2023-06-01"},
            {"content-type": "application/json"},
            {},
            set(),
        ),
    ],
)
def test_what_wakes_a_mechanism(
    request_headers: dict[str, str],
    response_headers: dict[str, str],
    request_: dict[str, Any],
    expected: set[str],
) -> None:
    """Each marker wakes its mechanism and no other; what any client or CDN sends wakes none."""
    assert woken(request_headers, response_headers, request=body(**request_)) == expected


def test_usage_wakes_pruning() -> None:
    """``usage.layer_zero.pruned_tokens`` is a marker; another field in there is none."""
    assert woken(layer_zero={"pruned_tokens": 4}) == {"pruning"}
    assert woken(layer_zero={"other": 4}) == set()


def test_own_header_wakes_response_cache() -> None:
    """The user's own header is a marker when it says something."""
    own = ("x-my-cache", "hit")
    assert woken({}, {"x-my-cache": "MISS"}, own) == {"response_cache"}
    assert woken({}, {"x-my-cache": "?"}, own) == set()
    assert woken({}, {"x-my-cache": "HIT"}) == set()


@pytest.mark.parametrize(
    ("value", "expected"), [("true", {"pruning"}), ("1", {"pruning"}), ("false", set()), ("", set())]
)
def test_environment(value: str, expected: set[str]) -> None:
    """The environment variable of article 001 is a marker when it says true."""
    assert set(signals.load().awake_environment({"ANTHROPIC_EXPERIMENTAL_LAYER_ZERO": value})) == expected


def test_everything_at_once() -> None:
    """Markers of several mechanisms wake all of them."""
    headers = {
        "x-anthropic-layer-zero": "enabled",
        "anthropic-layer-zero": "enabled",
        "anthropic-sampling-intent": "creative",
    }
    assert woken(headers, {"x-anthropic-layer": "zero", "helicone-cache": "HIT"}) == {
        "pruning",
        "zeroing",
        "intent",
        "symbolic",
        "response_cache",
    }


def test_rows_are_complete() -> None:
    """Each row has a known mechanism, mark, source and text; keys are unique; headers are in lower case."""
    assert {r.mechanism for r in TABLE} == {name for name in NAMES if not judge_class(name).ASKED_ALWAYS}
    assert [r for r in TABLE if r.mark not in ("A", "C", "D") or not r.source or not r.doc] == []
    assert len({(r.mechanism, r.key) for r in TABLE}) == len(TABLE)
    assert [r for r in TABLE if r.where.endswith("header") and r.name != r.name.lower()] == []


def test_marks() -> None:
    """A marker has its mechanism's mark, or C; those of the families are of articles or chosen by us."""
    assert [r for r in TABLE if r.mark not in (BY_NAME[r.mechanism].mark, "C")] == []
    assert {r.mark for r in TABLE if r.mechanism in FAMILIES} == {"A", "C"}
    assert {(r.mechanism, r.key) for r in TABLE if r.mark == "C"} == {
        ("pruning", "pruned_tokens"),
        ("pruning", "pruned_tokens_header"),
        ("pruning", "context_ms"),
        ("pruning", "context_ms_header"),
        ("scheduling", "served"),
    }


def load(tmp_path: Path, text: str) -> signals.Signals:
    path = tmp_path / "signals.toml"
    path.write_text(text, encoding="utf-8")
    return signals.load(str(path))


def test_override(tmp_path: Path) -> None:
    """A C row takes the name of the file, in lower case for headers; the others stay."""
    table = load(
        tmp_path,
        '[scheduling.served]\nname = "X-Layer"\n[pruning]\ncontext_ms = {name = "usage.layer_zero.ms"}\n',
    )
    assert table.name("scheduling", "served") == "x-layer"
    assert table.name("pruning", "context_ms") == "ms"
    assert table.name("pruning", "pruned_tokens") == "pruned_tokens"
    call = ended_call({}, {"x-layer": "zero"})
    assert set(table.awake(call.request, call.response_headers, call.facts)) == {"scheduling"}
    call = ended_call({}, {"x-anthropic-layer-served": "zero"})
    assert set(table.awake(call.request, call.response_headers, call.facts)) == set()


@pytest.mark.parametrize(
    ("text", "line", "key", "said"),
    [
        ('\n[symbolic.layer]\nname = "x"\n', 2, "symbolic.layer", "mark A"),
        ('[response_cache.helicone]\nname = "x"\n', 1, "response_cache.helicone", "mark D"),
        ('[pruning.nothing]\nname = "x"\n', 1, "pruning.nothing", "mark C"),
        ('[pruning_]\nname = "x"\n', 1, "pruning_", "scheduling.served"),
        ('# c\n[scheduling.served]\n\nname = "a b"\n', 4, "scheduling.served.name", "HTTP header"),
        ("[scheduling.served]\nname = 3\n", 2, "scheduling.served.name", "HTTP header"),
        ('[scheduling.served]\nname = "x"\nvalue = "y"\n', 3, "scheduling.served.value", "'name'"),
        ("[scheduling.served]\n", 1, "scheduling.served", "'name'"),
        ('[pruning]\npruned_tokens.name = "tokens"\n', 2, "pruning.pruned_tokens.name", "usage.layer_zero"),
        (
            '[pruning.pruned_tokens]\nname = "usage.cut"\n',
            2,
            "pruning.pruned_tokens.name",
            "usage.layer_zero",
        ),
        ('[scheduling.served]\nname = "X-Anthropic-Layer"\n', 2, "scheduling.served.name", "no other signal"),
        ("pruning = 3\n", 1, "pruning", "a table"),
    ],
)
def test_unusable_override(tmp_path: Path, text: str, line: int, key: str, said: str) -> None:
    """An override that cannot be used is refused, with file, line, key and what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert [
        part in message for part in ("LZ_OTEL_SIGNALS", "signals.toml", f"line {line},", f"key {key}=", said)
    ] == [True] * 5


@pytest.mark.parametrize(
    "text",
    [
        'scheduling = "x-key: CANARY"',
        '[scheduling]\nserved = "x-key: CANARY"',
        '[scheduling.served]\nname = "x-key: CANARY"',
        '[scheduling.served]\nname = "x"\nvalue = "CANARY"',
        '[symbolic.layer]\nname = "x-key: CANARY"',
    ],
)
def test_values_of_headers_are_not_shown(tmp_path: Path, text: str) -> None:
    """Who writes a header with its value there does not find it in a log."""
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text)
    assert "CANARY" not in str(caught.value)
    assert "(not shown, it may hold a secret)" in str(caught.value)


def test_bad_toml(tmp_path: Path) -> None:
    """A file that is no TOML is refused with the line that the parser names."""
    with pytest.raises(ConfigurationError, match=r"signals\.toml.*line 2"):
        load(tmp_path, "[scheduling.served]\nname = \n")


def test_missing_file(tmp_path: Path) -> None:
    """A file that cannot be read is refused by name."""
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml"):
        signals.load(str(tmp_path / "nowhere.toml"))


def test_no_text(tmp_path: Path) -> None:
    """A file that is no UTF-8 text is refused."""
    path = tmp_path / "signals.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"signals\.toml"):
        signals.load(str(path))


@given(
    st.dictionaries(st.sampled_from([r.name for r in TABLE]), st.text()),
    st.dictionaries(st.sampled_from([r.name for r in TABLE]), st.text()),
)
def test_nothing_raises(one: dict[str, str], other: dict[str, str]) -> None:
    """Whatever the headers hold, nothing is raised."""
    woken(one, other)
