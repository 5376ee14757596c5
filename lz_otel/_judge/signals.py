"""The wire markers of every mechanism, in one table.

Each row says where a signal stands, what it is called, who says so (mark and source) and
whether its being seen wakes the mechanism (``LZ_OTEL_MECHANISMS=auto``).

Marks: **D** documented by the vendor or gateway; **A** stated only in an article (000-004), no
vendor documents it; **C** chosen by lz-otel because the article names a number but no field.
Only C rows may be changed, by a TOML file (``LZ_OTEL_SIGNALS=path``)::

    [pruning.pruned_tokens_header]
    name = "x-my-gateway-pruned-tokens"
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lz_otel._extract.request import Fields
from lz_otel._ground import toml
from lz_otel._ground.headers import Headers, keep
from lz_otel._judge.gateways import has_statement
from lz_otel._judge.request_body import starts_with_tag
from lz_otel.errors import NOT_SHOWN, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lz_otel.model import Facts, Request

REQUEST, RESPONSE = "request header", "response header"
BODY, USAGE, DELTA, ENVIRONMENT = "request body", "usage field", "stream delta", "environment"
_SHORT = 4096


class Signal(NamedTuple):
    """One marker on the wire.

    Attributes:
        mechanism: the mechanism it belongs to.
        key: its name in the table and in an override file (``[mechanism.key]``).
        where: which part of a call.
        name: header name (lower case), body or usage field, or environment variable.
        mark: D, A or C.
        source: the article or the vendor's page.
        doc: one line of meaning.
        wakes: ``""`` never, ``"*"`` whatever its value, ``"?"`` if its value says something
            (`gateways.has_statement`: a CDN in front of an API sends such headers as well).
    """

    mechanism: str
    key: str
    where: str
    name: str
    mark: str
    source: str
    doc: str
    wakes: str = ""


def _s(mechanism: str, *rows: tuple[str, ...]) -> tuple[Signal, ...]:
    return tuple(Signal(mechanism, *row) for row in rows)


TABLE: tuple[Signal, ...] = (
    *_s("symbolic",
        ("layer", RESPONSE, "x-anthropic-layer", "A", "000 3.1", "'zero': served by the symbolic engine",
         "*"),
        ("engine_ms", RESPONSE, "x-anthropic-zero-latency", "A", "000 3.1", "time of the engine, ms", "*"),
        ("region", REQUEST, "anthropic-region", "A", "000 5.1", "only us-east-1 is fully enabled")),
    *_s("pruning",
        ("tag", BODY, "<layer-zero", "A", "001 3.2",
         "first line of the system prompt: <layer-zero enabled=\"true\" prune_ratio=\"0.32\"/>", "*"),
        ("asked_header", REQUEST, "x-anthropic-layer-zero", "A", "001 3.2", "enabled;prune_ratio=0.32", "*"),
        ("asked_env", ENVIRONMENT, "ANTHROPIC_EXPERIMENTAL_LAYER_ZERO", "A", "001 3.2",
         "true: every call asks", "*"),
        ("ratio_env", ENVIRONMENT, "ANTHROPIC_LAYER_ZERO_PRUNE_RATIO", "A", "001 3.2",
         "prune_ratio of every call"),
        ("pruned_tokens", USAGE, "usage.layer_zero.pruned_tokens", "C", "001 3.2 names the number",
         "input tokens cut", "*"),
        ("pruned_tokens_header", RESPONSE, "x-anthropic-layer-zero-pruned-tokens", "C",
         "001 3.2 names the number", "input tokens cut, where usage does not say it", "*"),
        ("context_ms", USAGE, "usage.layer_zero.context_preservation_ms", "C", "001 3.2 names the number",
         "time spent on preserving <context>, ms"),
        ("context_ms_header", RESPONSE, "x-anthropic-layer-zero-context-preservation-ms", "C",
         "001 3.2 names the number", "the same, where usage does not say it", "*")),
    *_s("intent",
        ("asked", REQUEST, "anthropic-sampling-intent", "A", "002 3.2", "deterministic, creative or balanced",
         "*"),
        ("wrong_header", REQUEST, "x-anthropic-sampling-intent", "A", "002 3.2",
         "the spelling that is silently ignored", "*"),
        ("beta", REQUEST, "anthropic-beta", "A", "002 1", "must list tools-2024-08-06"),
        ("hit", RESPONSE, "x-anthropic-layer-zero", "A", "002 3.1", "'true': sampled inside the model", "*"),
        ("served_intent", RESPONSE, "x-anthropic-sampling-intent", "A", "002 3.1", "the intent that was used",
         "*")),
    *_s("zeroing",
        ("asked", REQUEST, "anthropic-layer-zero", "A", "003 4.1", "'enabled' asks for it", "*"),
        ("context_type", REQUEST, "anthropic-context-type", "A", "003 4.3", "kind of task", "*"),
        ("threshold", BODY, "zeroing_threshold", "A", "003 3.2", "activation below which a path is cut", "*"),
        ("window", BODY, "stability_window", "A", "003 3.2", "tokens before a cut path is kept cut", "*"),
        ("tolerance", BODY, "impact_tolerance", "A", "003 3.2", "change of attention that is tolerated", "*"),
        ("segment", BODY, "user_segment", "A", "003 4.3", "which settings apply"),
        ("report", RESPONSE, "x-anthropic-layer-zero-report", "A", "003 4.2", "base64 of a JSON report", "*"),
        ("mask", DELTA, "zeroing_mask", "A", "003 4.2", "which groups of experts are active")),
    *_s("scheduling",
        ("hint", REQUEST, "x-anthropic-layer-hint", "A", "004 3.1", "zero-latency[;priority=high] or legacy",
         "*"),
        ("version", REQUEST, "anthropic-version", "A", "004 3.1", "2024-10-22"),
        ("served", RESPONSE, "x-anthropic-layer-served", "C", "004 names the layer", "zero or standard", "*"),
        ("trace_id", RESPONSE, "x-anthropic-trace-id", "A", "004 5.3", "for spans and logs, never a label",
         "*"),
        ("precision", REQUEST, "x-anthropic-precision-mode", "A", "004 5.2", "fp16-deterministic, ...", "*"),
        ("cache_policy", REQUEST, "x-anthropic-cache-policy", "A", "004 4.3", "JSON of block lists", "*")),
    *_s("response_cache",
        ("cloudflare", RESPONSE, "cf-aig-cache-status", "D", "Cloudflare AI Gateway", "HIT, MISS", "?"),
        ("helicone", RESPONSE, "helicone-cache", "D", "Helicone", "HIT, MISS", "?"),
        ("portkey", RESPONSE, "x-portkey-cache-status", "D", "Portkey",
         "HIT, SEMANTIC HIT, MISS, SEMANTIC MISS, REFRESH, DISABLED", "?"),
        ("openrouter", RESPONSE, "x-openrouter-cache-status", "D", "OpenRouter", "HIT, MISS", "?"),
        ("litellm", RESPONSE, "x-litellm-cache-key", "D", "LiteLLM", "its presence is a hit", "?"),
        ("cache_status", RESPONSE, "cache-status", "D", "RFC 9211", "hit, fwd=...", "?"),
        ("x_cache_status", RESPONSE, "x-cache-status", "D", "Kong", "Hit, Miss, Bypass, Refresh", "?"),
        ("x_cache", RESPONSE, "x-cache", "D", "Fastly", "HIT, MISS and lists; a pass reads MISS as well",
         "?"),
        ("cloudflare_step", RESPONSE, "cf-aig-step", "D", "Cloudflare AI Gateway", "0: no fallback", "?"),
        ("litellm_fallbacks", RESPONSE, "x-litellm-attempted-fallbacks", "D", "LiteLLM",
         "number of fallbacks", "?"),
        ("litellm_retries", RESPONSE, "x-litellm-attempted-retries", "D", "LiteLLM",
         "number of retries", "?"),
        ("portkey_retries", RESPONSE, "x-portkey-retry-attempt-count", "D", "Portkey",
         "retries; -1: all used up", "?"),
        ("helicone_fallback", RESPONSE, "helicone-fallback-index", "D", "Helicone (unverified)",
         "0: no fallback", "?"),
        ("ngrok_attempts", RESPONSE, "ngrok-aig-attempts", "D", "ngrok AI Gateway", "1: no retry", "?")),
)  # fmt: skip


class Signals:
    """The table in force, with what is needed to find markers quickly.

    ``response_cache_header`` is that of the user's own gateway: ``(name, value)`` in lower case.
    """

    def __init__(
        self, rows: tuple[Signal, ...] = TABLE, response_cache_header: tuple[str, str] | None = None
    ) -> None:
        self.rows = rows
        self.response_cache_header = response_cache_header
        self._names = {(r.mechanism, r.key): r.name for r in rows}
        self._request = _by_name(rows, REQUEST)
        self._response = _by_name(rows, RESPONSE)
        if response_cache_header is not None:
            self._response.setdefault(response_cache_header[0], []).append(("response_cache", "?"))
        self._request_names = frozenset(self._request)
        self._response_names = frozenset(self._response)
        keep(self._request_names | self._response_names)  # the user may have given a row any name
        self._usage = {self.name(r.mechanism, r.key): r.mechanism for r in rows if r.where == USAGE}

    def name(self, mechanism: str, key: str) -> str:
        """Return one signal's name on the wire; for `USAGE` rows the field inside ``usage.layer_zero``."""
        return self._names[mechanism, key].removeprefix("usage.layer_zero.")

    def awake(self, request: Request, response_headers: Headers, facts: Facts) -> frozenset[str]:
        """Return the mechanisms that have a marker in this call.

        Costs about a microsecond when there is none. Header names are lower case. Asked when the
        response's head is there (``facts`` then hold the request's fields, where the pruning tag and the
        fields of zeroing are), and again at the end, when they hold what usage says.
        """
        woken: set[str] = set()
        if not request.headers.lacks[self._request_names]:
            self._match(self._request, request.headers, woken)
        if not response_headers.lacks[self._response_names]:
            self._match(self._response, response_headers, woken)
        top = facts.request_fields
        if isinstance(top, Fields):
            body = request.body
            # A short body is searched faster than its parts.
            if (body is None or len(body) > _SHORT or b"layer-zero" in body) and starts_with_tag(top):
                woken.add("pruning")
            if (top.zeroing_threshold, top.stability_window, top.impact_tolerance) != (None, None, None):
                woken.add("zeroing")
        if facts.layer_zero:
            woken |= {self._usage[field] for field in self._usage.keys() & facts.layer_zero.keys()}
        return frozenset(woken)

    def _match(self, markers: Mapping[str, list[tuple[str, str]]], headers: Headers, woken: set[str]) -> None:
        for name in markers.keys() & headers.keys():
            for mechanism, wakes in markers[name]:
                if wakes == "*" or has_statement(headers, self.response_cache_header):
                    woken.add(mechanism)

    def awake_environment(self, environ: Mapping[str, str]) -> frozenset[str]:
        """Return the mechanisms that the process's environment switches on."""
        return frozenset(
            r.mechanism for r in self.rows
            if r.where == ENVIRONMENT and r.wakes and environ.get(r.name, "").strip().lower() in ("true", "1")
        )  # fmt: skip


def _by_name(rows: tuple[Signal, ...], where: str) -> dict[str, list[tuple[str, str]]]:
    out: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        if row.where == where and row.wakes:
            out.setdefault(row.name, []).append((row.mechanism, row.wakes))
    return out


def load(path: str | None = None, response_cache_header: tuple[str, str] | None = None) -> Signals:
    """Return the table, with the overrides of a TOML file.

    Args:
        path: file of ``[mechanism.key]`` tables, each with a ``name``; ``None``: no overrides.
        response_cache_header: header of the user's own gateway, ``(name, value)``, lower case.

    Raises:
        ConfigurationError: the file cannot be read, is no TOML, names a signal that is not in the
            table or not chosen by lz-otel (mark C), or has an unusable name. The text holds
            file, line and key.
    """
    if path is None:
        return Signals(TABLE, response_cache_header)
    stated = toml.load(Path(path), dict[str, object], name="LZ_OTEL_SIGNALS")
    try:
        return Signals(_with_overrides(stated), response_cache_header)
    except ConfigurationError as error:
        line = _line(Path(path).read_text(encoding="utf-8"), _parts(error.setting))
        place = f"LZ_OTEL_SIGNALS: {path}, line {line}, key {error.setting}"
        raise ConfigurationError(place, error.value, error.allowed) from None


def _with_overrides(stated: Mapping[str, object]) -> tuple[Signal, ...]:
    """Return the table with what a user's file changes; an error's setting is the key in that file."""
    rows = {(r.mechanism, r.key): r for r in TABLE}
    for mechanism, keys in stated.items():
        if not isinstance(keys, dict) or mechanism not in {r.mechanism for r in TABLE}:
            raise ConfigurationError(mechanism, NOT_SHOWN, f"a table of {_OVERRIDABLE}")
        for key, override in keys.items():
            rows[mechanism, key] = _overridden(rows.get((mechanism, key)), f"{mechanism}.{key}", override)
    places = Counter((row.where, row.name) for row in rows.values())
    for (mechanism, key), row in rows.items():
        if row not in TABLE and places[row.where, row.name] > 1:
            allowed = f"a {row.where} that no other signal uses"
            raise ConfigurationError(f"{mechanism}.{key}.name", row.name, allowed)
    return tuple(rows.values())


def _overridden(row: Signal | None, setting: str, override: object) -> Signal:
    """Return a row with the name that the user's file gives it."""
    if row is None or row.mark != "C":
        allowed = f"one of {_OVERRIDABLE} (mark C)"
        if row is not None:
            allowed += f"; {row.name!r} is fixed by its source ({row.source}, mark {row.mark})"
        raise ConfigurationError(setting, NOT_SHOWN, allowed)
    if not isinstance(override, dict) or set(override) != {"name"}:
        extra = sorted(set(override) - {"name"}) if isinstance(override, dict) else []
        place = ".".join((setting, *extra[:1]))
        raise ConfigurationError(place, NOT_SHOWN, "a table with the one key 'name'")
    name = override["name"]
    pattern, allowed = _FIELD_NAME if row.where == USAGE else _HEADER_NAME
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        raise ConfigurationError(f"{setting}.name", NOT_SHOWN, allowed)
    return row._replace(name=name if row.where == USAGE else name.lower())


_OVERRIDABLE = ", ".join(f"{r.mechanism}.{r.key}" for r in TABLE if r.mark == "C")
_HEADER_NAME = (r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", "the name of an HTTP header")
_FIELD_NAME = (
    r"usage\.layer_zero\.[A-Za-z0-9_]{1,64}",
    "a field directly inside usage.layer_zero, as usage.layer_zero.pruned",
)


def _line(text: str, keys: tuple[str, ...]) -> int:
    """Return the line of a key (TOML's reader does not give it); its table's line as the next best."""
    table: tuple[str, ...] = ()
    best, depth = 1, 0
    for number, line in enumerate(text.splitlines(), 1):
        content = line.split("#", 1)[0].strip()
        path = table
        if content.startswith("["):
            table = path = _parts(content.strip("[] "))
        elif "=" in content:
            path = table + _parts(content.split("=", 1)[0])
        common = 0
        while common < min(len(path), len(keys)) and path[common] == keys[common]:
            common += 1
        if common > depth:
            best, depth = number, common
    return best


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
