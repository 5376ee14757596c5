"""Write the price list of the package anew from the data set genai-prices: `make prices`.

What it says is reviewed as a diff: one line a model. `prices.toml`, whose figures were read on the vendors'
pages, stands above it; where the two differ, that is said. It needs the development environment.
"""

from __future__ import annotations

import datetime
import importlib.util
import re
import sys
import typing
from importlib import metadata
from typing import TYPE_CHECKING, Any

import msgspec

from lz_otel._price.price_file import LISTED, load_table
from lz_otel._price.table import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Provider (gen_ai.provider.name) to that of the data set. The others state the cost themselves (OpenRouter,
# Perplexity), have prices that no answer tells (Azure: the kind of deployment), or none in the data set.
PROVIDERS = {
    "anthropic": "anthropic", "aws.bedrock": "aws", "cerebras": "cerebras", "cohere": "cohere",
    "deepseek": "deepseek", "fireworks_ai": "fireworks", "gcp.gemini": "google", "groq": "groq",
    "mistral_ai": "mistral", "moonshot_ai": "moonshotai", "openai": "openai", "together_ai": "together",
    "voyageai": "voyageai", "x_ai": "x-ai", "z_ai": "zai",
}  # fmt: skip
KEYS = {
    "input_mtok": "input", "output_mtok": "output", "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write", "cache_write_1h_mtok": "cache_write_1h",
    "input_audio_mtok": "audio_input", "output_audio_mtok": "audio_output",
    "cache_audio_read_mtok": "audio_cache_read", "input_image_mtok": "image_input",
    "output_image_mtok": "image_output", "cache_image_read_mtok": "image_cache_read",
    "input_video_mtok": "video_input", "output_video_mtok": "video_output",
}  # fmt: skip
FEES = {
    "web_searches_kcount": ("web_search", 1e-3), "storage_searches_kcount": ("file_search", 1e-3),
    "input_audio_hours": ("audio_second", 1 / 3600), "audio_hours": ("audio_second", 1 / 3600),
}  # fmt: skip
# Their searches are billed as a fixed block of input tokens too (D)
NO_SEARCH_FEE = frozenset({"gpt-4o-mini", "gpt-4.1-mini"})
PER_PROMPT = 35  # Gemini before 3: a fee for each grounded prompt, however many searches it took (D)
TIERS = {"processing": ("batch",), "service_tier": ("flex", "priority", "fast")}
# Of the five articles: the models that they call
ARTICLES = ("claude-3-5-sonnet-20240620", "claude-3-haiku-20240307", "claude-3-opus-20240229",
            "claude-3-sonnet-20240229", "claude-3-5-sonnet-quantized", "claude-4-haiku-20241022")  # fmt: skip
SPELLINGS = {"gcp.gemini": ("-preview", "-latest", "-exp"), "openai": ("-preview",)}


def rates(said: Any, model: str) -> dict[str, Any]:
    """Return the prices of one statement in the form of a row, with those of long prompts."""
    stated = {KEYS[key]: value for key, value in vars(said).items() if key in KEYS and value is not None}
    starts = sorted({tier.start for value in stated.values() for tier in getattr(value, "tiers", ())})
    if len(starts) > 1:
        raise SystemExit(f"{model}: more than one step of prices: widen the format of the table")
    row: dict[str, Any] = _filled({key: _number(value, False) for key, value in stated.items()}, model)
    if starts:
        long = _filled({key: _number(value, True) for key, value in stated.items()}, model)
        row["long"] = {"above": starts[0], **long}
    return row


def _number(value: Any, long: bool) -> float:
    if hasattr(value, "tiers"):
        value = value.tiers[0].price if long and value.tiers else value.base
    return float(value)


def _filled(row: dict[str, float], model: str) -> dict[str, Any]:
    row = {"input": row.pop("input", 0.0), "output": row.pop("output", 0.0), **row}
    if "cache_write_1h" in row and "cache_write" in row:
        row["cache_write_5m"] = row.pop("cache_write")
    if "gpt-image" in model or "chatgpt-image" in model:
        row.setdefault("image_output", row["output"])  # the data set states it as the price of all output
    return row


def fees(said: Any) -> dict[str, float]:
    """Return USD for one of what is billed beside tokens."""
    found: dict[str, float] = {}
    for key, (name, factor) in FEES.items():
        value = getattr(said, key, None)
        if value is not None:
            per_prompt = name == "web_search" and float(value) == PER_PROMPT
            found["grounded_prompt" if per_prompt else name] = round(float(value) * factor, 12)
    return found


def rows_of(model: Any, ids: list[str], today: datetime.date) -> Iterator[dict[str, Any]]:
    """Return the row in force on a day, and those that are announced for later."""
    stated = model.prices if isinstance(model.prices, list) else [None]
    dated: list[tuple[datetime.date | None, Any, list[Any]]] = []
    for entry in stated:
        constraint = getattr(entry, "constraint", None)
        prices = model.prices if entry is None else entry.prices
        if hasattr(constraint, "start_time"):
            dated[-1][2].append(entry)
        else:
            dated.append((getattr(constraint, "start_date", None), prices, []))
    dated.sort(key=lambda one: one[0] or datetime.date.min)
    current = [one for one in dated if one[0] is None or one[0] <= today][-1:]
    for start, prices, hours in current + [one for one in dated if one[0] is not None and one[0] > today]:
        if not any(getattr(prices, key, None) is not None for key in (*KEYS, *FEES)):
            continue
        row = {"ids": ids, **rates(prices, model.id)}
        if start is not None and start > today:
            row["effective"] = start.isoformat()
        if found := fees(prices):
            row["fees"] = found
        if hours:
            row["hours"] = [
                {"hours": _hours(entry.constraint), **rates(entry.prices, model.id)} for entry in hours
            ]
        row.update(_variants(model))
        yield row


def _hours(constraint: Any) -> str:
    return f"{constraint.start_time:%H:%M}-{constraint.end_time:%H:%M}"


def _variants(model: Any) -> dict[str, Any]:
    tiers: dict[str, Any] = {}
    row: dict[str, Any] = {}
    for variant in model.price_variants or ():
        ((key, value),) = variant.when.items()
        prices = {name: one for name, one in vars(variant.prices).items() if one is not None}
        if key in TIERS and value in TIERS[key] and "input_mtok" in prices:
            tiers[value] = rates(variant.prices, model.id)
        elif (key, value) == ("speed", "fast") and "input_mtok" in prices:
            row["fast"] = rates(variant.prices, model.id)
    return {**row, "tiers": tiers} if tiers else row


def ids_of(provider: Any, model: Any, spellings: Iterable[str]) -> list[str]:
    """Return the ids that the data set itself takes for a model: normalised, unless that names another."""
    names = {model.id.lower(), *_literals(model.match)}
    names |= {name + end for name in set(names) for end in spellings}
    found = set()
    for name in names:
        resolved = provider.find_model(name)
        if resolved is not None and resolved.id == model.id and re.fullmatch(r"[\w.:@/+-]+", name):
            short = normalise(name)
            other = provider.find_model(short)
            found.add(short if other is None or other.id == model.id else name)
    return sorted(found)


def _literals(clause: Any) -> Iterator[str]:
    for key in ("equals", "starts_with"):
        if text := getattr(clause, key, None):
            yield text.lower()
    for inner in [*(getattr(clause, "or_", None) or ()), *(getattr(clause, "and_", None) or ())]:
        yield from _literals(inner)


def listed(
    providers: Iterable[Any], today: datetime.date
) -> tuple[dict[str, list[Any]], dict[str, list[str]]]:
    """Return the rows by our names of providers, and the models without any price."""
    by_id = {provider.id: provider for provider in providers}
    models: dict[str, list[Any]] = {}
    unknown: dict[str, list[str]] = {}
    for ours, theirs in sorted(PROVIDERS.items()):
        provider, taken = by_id[theirs], set()
        for model in sorted(provider.models, key=lambda one: (one.id.startswith("global."), one.id)):
            spellings = SPELLINGS.get(ours, ())
            ids = [name for name in ids_of(provider, model, spellings) if name not in taken]
            rows = list(rows_of(model, ids, today)) if ids else []
            if rows:
                taken.update(ids)
                models.setdefault(ours, []).extend(rows)
            elif not model.id.startswith("global."):
                unknown.setdefault(ours, []).append(model.id)
        if theirs == "openai":
            for row in models[ours]:  # free before GPT-5.6: tokens that were written are billed as input (D)
                for one in (row, *row.get("tiers", {}).values()):
                    for step in filter(None, (one, one.get("long"))):
                        step.setdefault("cache_write", step["input"])
                if NO_SEARCH_FEE.intersection(row["ids"]):
                    del row["fees"]["web_search"]
    return models, unknown


def named() -> dict[str, set[str]]:
    """Return the models that the vendors' own SDKs name."""
    found: dict[str, set[str]] = {"anthropic": set(ARTICLES), "openai": set()}
    lists = {
        "anthropic": ("anthropic.types.model:Model",),
        "openai": (
            "openai.types.shared.all_models:AllModels",
            "openai.types.embedding_model:EmbeddingModel",
            "openai.types.image_model:ImageModel",
            "openai.types.audio_model:AudioModel",
            "openai.types.audio.speech_model:SpeechModel",
        ),
    }
    for provider, places in lists.items():
        for place in places:
            module, _, name = place.partition(":")
            if importlib.util.find_spec(module) is not None:
                found[provider] |= _of_literal(getattr(importlib.import_module(module), name))
    return found


def _of_literal(kind: Any) -> set[str]:
    return {
        value
        for arg in typing.get_args(kind)
        for value in ({arg} if isinstance(arg, str) else _of_literal(arg))
    }


def main() -> int:
    """Write the list; say what it does not know, and where it differs from what was read on the pages."""
    from genai_prices.data import providers

    today = datetime.datetime.now(datetime.UTC).date()
    models, unknown = listed(providers, today)
    lines = [
        f'"{provider}": [\n' + ",\n".join(msgspec.json.encode(row).decode() for row in rows) + "\n]"
        for provider, rows in models.items()
    ]
    source = f"genai-prices {metadata.version('genai-prices')} (MIT)"

    def write() -> None:
        head = f'{{"as_of": "{today.isoformat()}", "source": "{source}", "models": {{\n'
        tail = msgspec.json.encode({key: sorted(names) for key, names in sorted(unknown.items())}).decode()
        LISTED.write_text(head + ",\n".join(lines) + f'\n}},\n"unknown": {tail}}}\n', encoding="utf-8")

    write()
    table, moment = load_table(), datetime.datetime.now(datetime.UTC).timestamp()
    for provider, names in named().items():
        missing = {name for name in names if table.find(name, provider, moment)[0] is None}
        unknown[provider] = sorted({*unknown.get(provider, ()), *missing})
    write()
    for name, rows in sorted(table.rows.items()):
        for other in table.listed.rows(rows[-1].vendor, name):
            ours, theirs = (rows[-1].rates, rows[-1].long), (other.rates, other.long)
            if ours != theirs:
                sys.stdout.write(f"{name}: prices.toml has {ours}, the data set {theirs}\n")
    count = sum(len(rows) for rows in models.values())
    sys.stdout.write(
        f"{count} rows, {sum(map(len, unknown.values()))} models without a price: {LISTED.name}\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
