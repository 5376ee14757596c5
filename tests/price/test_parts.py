"""Money is whole, or a part of it is named that has no price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lz_otel._price.cost import Prices
from lz_otel._price.parts import Cost
from lz_otel.catalogue import PARTS
from lz_otel.model import Request
from tests.price.priced import NOW, epoch, facts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def prices() -> Prices:
    """The built-in table."""
    return Prices.load()


M = 1_000_000
GPT, GEMINI = ("gpt-5.4", "openai"), ("gemini-2.5-flash", "gcp.gemini")
AUDIO = ("gpt-audio-mini", "openai")


@pytest.mark.parametrize(
    ("model", "known", "expected"),
    [
        # Fees
        (GPT, {"fees": {"web_search": 3}}, 0.03),
        (GPT, {"fees": {"file_search": 4}}, 0.01),
        (GPT, {"fees": {"computer": 9, "mcp": 2}}, 0.0),
        (GPT, {"fees": {"code_interpreter": 1}}, "tool_fee"),
        (GPT, {"fees": {"web_search": 3, "brand_new": 1}}, "tool_fee"),
        (GPT, {"fees": {"image_generation": 1}}, "image"),
        (GPT, {"fees": {"cache_write_12h": 100}}, "cache"),
        (("gpt-4.1-mini", "openai"), {"fees": {"web_search": 1}}, "tool_fee"),
        (("claude-opus-5", "anthropic"), {"fees": {"web_search": 2, "web_fetch": 2}}, 0.02),
        (("claude-opus-5", "anthropic"), {"fees": {"code_execution": 1}}, "tool_fee"),
        (GEMINI, {"fees": {"web_search": 3}}, 0.035),  # by the prompt
        (("gemini-3.1-pro-preview", "gcp.gemini"), {"fees": {"web_search": 3}}, 0.042),  # by the query
        (GEMINI, {"fees": {"maps_grounding": 1}}, "tool_fee"),
        (GEMINI, {"fees": {"cache_storage": 1}}, "cache"),
        (
            ("whisper-1", "openai"),
            {"input_tokens": None, "output_tokens": None, "fees": {"audio_second": 60}},
            0.006,
        ),
        # Tokens that are no text
        (AUDIO, {"output_tokens": M, "output_tokens_by_modality": {"audio": M}}, 20.0),
        (AUDIO, {"output_tokens": M, "output_tokens_by_modality": {"text": M // 2, "audio": M // 2}}, 11.2),
        (AUDIO, {"input_tokens": M, "input_tokens_by_modality": {"audio": M // 2, "text": M // 2}}, 5.3),
        (
            AUDIO,
            {"input_tokens": M, "cache_read_tokens": 9, "input_tokens_by_modality": {"audio": M}},
            "cache",
        ),
        (GPT, {"input_tokens": 1000, "input_tokens_by_modality": {"image": 1000}}, 0.0025),
        (GPT, {"output_tokens": 9, "output_tokens_by_modality": {"image": 9}}, "image"),
        (GPT, {"output_tokens": 9, "output_tokens_by_modality": {"audio": 9}}, "audio"),
        (GPT, {"input_tokens": 9, "input_tokens_by_modality": {"unknown": 9}}, "other"),
        (GEMINI, {"input_tokens": M, "input_tokens_by_modality": {"audio": M}}, 1.0),
        (GEMINI, {"input_tokens": M, "input_tokens_by_modality": {"unknown": M}}, 0.3),
        (
            GEMINI,
            {
                "input_tokens": M,
                "cache_read_tokens": M,
                "input_tokens_by_modality": {"audio": M},
                "cached_tokens_by_modality": {"audio": M},
            },
            0.1,
        ),
        (("gpt-image-1", "openai"), {"output_tokens": M, "output_tokens_by_modality": {"image": M}}, 40.0),
        # Cache, tier, steps, hours
        (("gpt-5.4-pro", "openai"), {"input_tokens": 9, "cache_read_tokens": 1}, "cache"),
        (GPT, {"input_tokens": 272_000}, 0.68),
        (GPT, {"input_tokens": 272_001}, 1.360005),
        (GPT, {"input_tokens": 272_001, "service_tier": "priority"}, "tier"),
        (GPT, {"input_tokens": M, "service_tier": "scale"}, "tier"),
        (("gpt-5.5", "openai"), {"input_tokens": 100_000, "service_tier": "priority"}, 1.25),
        # Others
        (("nobodys-model", "openai"), {"input_tokens": 9}, "model"),
        (GPT, {"gateway_fell_back": True}, "gateway_fallback"),
        (GPT, {"gateway_fell_back": True, "cost_reported": 0.5}, 0.5),
        (GPT, {"cost_reported": 0.1, "cost_besides": 0.4}, 0.5),
        (("gpt-4o", "openrouter"), {"cost_reported": 0.1, "cost_besides": float("inf")}, "model"),
    ],
)
def test_a_cost_is_whole_or_its_part_is_named(
    prices: Prices, model: tuple[str, str], known: dict[str, Any], expected: float | str
) -> None:
    """Each part that is billed is in the cost; where one has no price there is no cost."""
    cost = prices.whole(facts(*model, **{"input_tokens": 0, "output_tokens": 0, **known}), NOW)
    if isinstance(cost, str):
        assert cost == expected
        assert cost in PARTS
    else:
        assert expected == pytest.approx(cost.usd, rel=1e-9)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/images/generations", "image"),
        ("/v1/audio/speech", "audio"),
        ("/v1/models/imagen:predict", "image"),
        ("/v2/rerank", "other"),
        ("/v1/moderations", ""),
    ],
)
def test_what_is_billed_without_tokens(prices: Prices, path: str, expected: str) -> None:
    """An answer without usage is billed by images, seconds or searches; moderation is free."""
    said = facts("dall-e-3", "openai")
    said.operation = "other"
    assert expected == prices.whole(said, NOW, Request("POST", "api.openai.com", path))


def test_hours_of_the_day(prices: Prices) -> None:
    """DeepSeek's prices are twice as high from 01:00 to 04:00 and from 06:00 to 10:00 UTC."""
    said = facts("deepseek-v4-flash", "deepseek", input_tokens=M, output_tokens=0)
    midnight = epoch("2026-12-01") - 12 * 3600
    hours = {0: 0.15, 1: 0.30, 3.99: 0.30, 4: 0.15, 6: 0.30, 10: 0.15, 23.9: 0.15, 25: 0.30}
    costs = {hour: prices.price(said, midnight + hour * 3600) for hour in hours}
    assert hours == {hour: cost and pytest.approx(cost.usd) for hour, cost in costs.items()}


def test_a_region_whose_price_is_not_listed(prices: Prices) -> None:
    """The data set has Bedrock's prices of the USA."""
    said = facts("amazon.nova-lite-v1:0", "aws.bedrock", input_tokens=M, output_tokens=0)
    costs = [
        prices.whole(said, NOW, Request("POST", f"bedrock-runtime.{region}.amazonaws.com", "/"))
        for region in ("us-east-1", "eu-west-1", "us-gov-west-1")
    ]
    assert costs == [Cost(pytest.approx(0.06), pytest.approx(0.06)), "tier", "tier"]


def test_a_users_row_has_no_price_that_it_does_not_state(tmp_path: Path) -> None:
    """32: audio was billed as text, since the user's file knew the prices of text only."""
    path = tmp_path / "mine.toml"
    row = '[[model]]\nids = ["gpt-audio-mini"]\ninput = 0.6\noutput = 2.4\n'
    path.write_text(row, "utf-8")
    audio = facts(
        *AUDIO, input_tokens=15, output_tokens=47, output_tokens_by_modality={"audio": 34, "text": 13}
    )
    read = facts(*AUDIO, input_tokens=15, output_tokens=0, cache_read_tokens=1)
    mine = Prices.load(str(path))
    assert [mine.whole(audio, NOW), mine.whole(read, NOW)] == ["audio", "cache"]
    path.write_text(row + "audio_output = 20\ncache_read = 0.1\n", "utf-8")
    mine = Prices.load(str(path))
    assert mine.price(audio, NOW) == Cost(pytest.approx(0.0007202), pytest.approx(0.0007202))
    assert mine.price(read, NOW) is not None


def test_a_users_fee(tmp_path: Path) -> None:
    """What has no list price may be stated by the user: here storage that is booked elsewhere."""
    path = tmp_path / "mine.toml"
    path.write_text('[vendor."gcp.gemini"]\nfees = { cache_storage = 0, maps_grounding = 0.025 }\n', "utf-8")
    said = facts(*GEMINI, input_tokens=0, output_tokens=0, fees={"cache_storage": 1, "maps_grounding": 2})
    assert Prices.load(str(path)).price(said, NOW) == Cost(pytest.approx(0.05), pytest.approx(0.05))
