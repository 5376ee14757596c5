"""Money: dates, reported costs, what is unpriced, the mechanisms' prices, a user's own file."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest

from lz_otel._price.cost import Cost, Prices
from tests.price.priced import NOW, epoch, facts

if TYPE_CHECKING:
    from pathlib import Path

    from lz_otel.model import Facts


@pytest.fixture(scope="module")
def prices() -> Prices:
    """The built-in table."""
    return Prices.load()


@pytest.mark.parametrize(
    ("day", "read_price"), [("2026-10-06", 0.20), ("2026-10-07", 0.10), ("2026-11-29", 0.10)]
)
def test_a_price_holds_from_its_day_on(prices: Prices, day: str, read_price: float) -> None:
    """The price of the day of the call holds, also after a later one was asked for."""
    said = facts("claude-sonnet-5-5", input_tokens=1_000_000, output_tokens=0, cache_read_tokens=1_000_000)
    for _ in range(2):
        cost = prices.price(said, epoch(day))
        assert cost is not None
        assert cost.usd == pytest.approx(read_price, rel=1e-12)
        prices.price(said, epoch("2026-10-01"))
        prices.price(said, epoch("2026-12-01"))


def test_no_price_before_the_first_day(prices: Prices) -> None:
    """A model that came on a known day has no price before it."""
    said = facts("claude-fable-5-2", input_tokens=10, output_tokens=1)
    assert [prices.price(said, epoch("2026-11-08")), prices.price(said, epoch("2026-11-09"))] == [
        None,
        Cost(pytest.approx(120e-6), pytest.approx(120e-6), 0.0, 0.0),
    ]


@pytest.mark.parametrize(
    "said",
    [
        facts("claude-3-5-sonnet-quantized", input_tokens=1, output_tokens=1),
        facts("claude-4-haiku-20241022", input_tokens=1, output_tokens=1),
        facts("gpt-4o-mini-next", "openai", input_tokens=1, output_tokens=1),
        facts("gpt-6.2-sol", "openai", input_tokens=1, output_tokens=1),
        facts("claude-opus-5", service_tier="priority", input_tokens=1, output_tokens=1),
        facts("gpt-6-sol", "openai", service_tier="ultrafast", input_tokens=1, output_tokens=1),
        facts("gpt-6-sol", "azure.ai.openai", input_tokens=1, output_tokens=1),
        facts("claude-sonnet-4-6", "snowflake", input_tokens=1, output_tokens=1),
        facts("claude-sonnet-5", speed="fast", input_tokens=1, output_tokens=1),
        facts("claude-opus-5", speed="warp", input_tokens=1, output_tokens=1),
        facts("claude-opus-5", inference_geo="mars", input_tokens=1, output_tokens=1),
        facts("claude-opus-5", "gcp.vertex_ai", input_tokens=1, output_tokens=1),
        facts("claude-opus-5", input_tokens=None, output_tokens=None),
        facts("", input_tokens=1, output_tokens=1),
    ],
)
def test_what_is_not_known_is_unpriced(prices: Prices, said: Facts) -> None:
    """No price for the model, tier, speed, place or reseller, or no usage: no cost, nothing invented."""
    assert prices.price(said, NOW) is None


def test_an_opaque_inference_profile_is_unpriced(prices: Prices) -> None:
    """A Bedrock profile that hides whether it is global has no price where that matters."""
    said = facts("claude-opus-5", "aws.bedrock", input_tokens=1, output_tokens=1)
    said.request_model = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/1arbu5hu2sjr"
    assert prices.price(said, NOW) is None
    said.response_model = "claude-opus-4-1"
    assert prices.price(said, NOW) is not None


def test_the_answering_model_is_priced(prices: Prices) -> None:
    """After a server-side fallback the model that answered is billed."""
    said = facts("claude-opus-5", input_tokens=1_000_000, output_tokens=0)
    said.response_model = "claude-haiku-4-5-20251001"
    cost = prices.price(said, NOW)
    assert cost is not None
    assert cost.usd == pytest.approx(1.0, rel=1e-12)


def test_an_input_without_an_output_is_a_lower_bound(prices: Prices) -> None:
    """A stream that was left early costs at least its input."""
    cost = prices.price(facts("claude-opus-5", input_tokens=1_000_000, output_tokens=None), NOW)
    assert cost is not None
    assert cost.usd == pytest.approx(5.0, rel=1e-12)


@pytest.mark.parametrize(
    ("known", "usd"),
    [
        ({"cache_read_tokens": 120}, 100 * 0.5e-6),
        ({"cache_read_tokens": 80, "cache_write_tokens": 80}, 80 * 0.5e-6 + 20 * 6.25e-6),
        ({"cache_write_tokens": 10, "cache_write_1h_tokens": 30}, 90 * 5e-6 + 10 * 10e-6),
        ({"cache_write_5m_tokens": 10, "cache_write_1h_tokens": 30}, 60 * 5e-6 + 10 * 6.25e-6 + 30 * 10e-6),
    ],
)
def test_parts_never_exceed_the_whole(prices: Prices, known: dict[str, int], usd: float) -> None:
    """Parts that contradict the total of a broken server are cut to it: nothing is priced twice."""
    cost = prices.price(facts("claude-opus-5", input_tokens=100, output_tokens=0, **known), NOW)
    assert cost is not None
    assert cost.usd == pytest.approx(usd, rel=1e-12)


@pytest.mark.parametrize("reported", [0.0, 0.0123])
def test_the_providers_own_figure_wins(prices: Prices, reported: float) -> None:
    """A cost that the provider states is the cost, whatever the table says."""
    said = facts("claude-opus-5", "openrouter", input_tokens=10, output_tokens=1, cost_reported=reported)
    assert prices.price(said, NOW) == Cost(reported, None, 0.0, 0.0)


@pytest.mark.parametrize("reported", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_senseless_report_is_no_cost(prices: Prices, reported: float) -> None:
    """A reported cost that cannot be one is ignored."""
    said = facts("claude-opus-5", input_tokens=1_000_000, output_tokens=0, cost_reported=reported)
    cost = prices.price(said, NOW)
    assert cost is not None
    assert cost.usd == pytest.approx(5.0, rel=1e-12)


def test_the_symbolic_layer_costs_a_fifth_of_the_input(prices: Prices) -> None:
    """Article 000: input at 1/5 of the input price, output free."""
    price = prices.symbolic_price(facts("claude-sonnet-4-5", input_tokens=127, output_tokens=23), NOW)
    assert price is not None
    full = 127 * 3e-6 + 23 * 15e-6
    assert price == pytest.approx((127 * 0.6e-6, full, full - 127 * 0.6e-6), rel=1e-12)


@pytest.mark.parametrize(
    ("tokens", "qps", "less"), [(99, 0.0, 0.28), (2000, 50.0, 0.28), (2001, 0.0, 0.625), (9000, 50.1, 0.68)]
)
def test_scheduling_saves_by_length_and_rate(prices: Prices, tokens: int, qps: float, less: float) -> None:
    """Article 004: short -28 %, over 2000 tokens -62.5 %, over 50 similar calls per second -68 %."""
    said = facts("claude-sonnet-4-5", input_tokens=tokens, output_tokens=10)
    full = tokens * 3e-6 + 10 * 15e-6
    price = prices.scheduling_price(said, NOW, qps)
    assert price == pytest.approx((full * (1 - less), full, full * less), rel=1e-12)


def test_a_response_cache_hit_is_free(prices: Prices) -> None:
    """A stored answer costs nothing and saves what its replayed usage would have cost."""
    said = facts("claude-sonnet-4-5", input_tokens=1000, output_tokens=100, cache_read_tokens=500)
    usd = 500 * 3e-6 + 500 * 0.3e-6 + 100 * 15e-6
    assert prices.response_cache_price(said, NOW) == pytest.approx((0.0, usd, usd), rel=1e-12)


def test_pruned_tokens_are_priced_as_input(prices: Prices) -> None:
    """Tokens that were not sent would have cost the input price of this call's size."""
    said = facts("claude-haiku-5-5", input_tokens=100_001, output_tokens=0)
    assert prices.input_price(said, NOW, 1000) == pytest.approx(1000 * 0.5e-6, rel=1e-12)
    assert prices.input_price(facts("no-such-model", input_tokens=1), NOW, 1000) is None


@pytest.mark.parametrize("name", ["symbolic_price", "scheduling_price", "response_cache_price"])
def test_fast_prices_of_unknown_models_are_unknown(prices: Prices, name: str) -> None:
    """A mechanism's saving has no figure when the model has no price."""
    assert getattr(prices, name)(facts("no-such-model", input_tokens=1, output_tokens=1), NOW) is None


def test_web_searches_are_billed_by_request(prices: Prices) -> None:
    """Web searches cost 10 USD per thousand on top of the tokens."""
    said = facts("claude-opus-5", input_tokens=0, output_tokens=0, fees={"web_search": 5, "web_fetch": 3})
    cost = prices.price(said, NOW)
    assert cost is not None
    assert (cost.usd, cost.full_usd) == pytest.approx((0.05, 0.05))


def test_what_is_billed_besides_the_answer_is_priced(prices: Prices) -> None:
    """Compaction is billed at the answering model's price, advice at the advisor's."""
    said = facts("claude-sonnet-5", input_tokens=1000, output_tokens=10)
    said.billed_besides = [
        {
            "type": "compaction",
            "input_tokens": 100,
            "output_tokens": 131,
            "cache_creation_input_tokens": 500,
            "cache_read_input_tokens": 50,
            "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 200},
        },
        {
            "type": "advisor_message",
            "model": "claude-opus-4-8",
            "input_tokens": 2518,
            "output_tokens": 22,
            "cache_read_input_tokens": None,
        },
    ]
    cost = prices.price(said, NOW)
    assert cost is not None
    answer = 1000 * 2e-6 + 10 * 10e-6
    compaction = 100 * 2e-6 + 131 * 10e-6 + 300 * 2.5e-6 + 200 * 4e-6 + 50 * 0.2e-6
    advice = 2518 * 5e-6 + 22 * 25e-6
    full = answer + 650 * 2e-6 + 131 * 10e-6 + advice
    assert (cost.usd, cost.full_usd) == pytest.approx((answer + compaction + advice, full), rel=1e-12)


def test_advice_without_a_price_leaves_the_call_unpriced(prices: Prices) -> None:
    """A part that cannot be priced makes the sum unknown, not too small."""
    said = facts("claude-sonnet-5", input_tokens=1000, output_tokens=10)
    said.billed_besides = [
        {"type": "advisor_message", "model": "nobody", "input_tokens": 1, "output_tokens": 1}
    ]
    assert prices.price(said, NOW) is None


def test_model_names_from_the_wire_do_not_fill_the_memory(prices: Prices) -> None:
    """The compiled rates stay bounded under a flood of model names."""
    for number in range(2000):
        prices.price(facts(f"model-{number}", input_tokens=1, output_tokens=1), NOW)
    assert len(prices._quotes) <= 512


def test_an_old_table_is_told(prices: Prices) -> None:
    """A table older than 90 days gives a warning with its date, a younger one none."""
    read = prices.table.as_of
    at = [
        datetime.datetime.combine(read + datetime.timedelta(days=d), datetime.time(), datetime.UTC)
        for d in (90, 91)
    ]
    young, old = (prices.stale(day.timestamp()) for day in at)
    assert young is None
    assert old is not None
    assert read.isoformat() in old
    assert "91 days" in old


USER_FILE = """
[[model]]
ids = ["claude-opus-5"]
input = 10
output = 50
cache_read = 1
cache_write_5m = 12.5
cache_write_1h = 20

[[model]]
ids = ["gpt-5"]
input = 2
output = 16
cache_read = 0.2
"""


@pytest.mark.parametrize(
    ("said", "usd"),
    [
        (
            facts(
                "claude-opus-5",
                input_tokens=2104,
                output_tokens=20,
                cache_read_tokens=2000,
                cache_write_tokens=100,
            ),
            0.00429,
        ),
        (
            facts(
                "claude-opus-5",
                input_tokens=2104,
                output_tokens=20,
                cache_read_tokens=2000,
                cache_write_tokens=100,
                cache_write_5m_tokens=60,
                cache_write_1h_tokens=40,
            ),
            0.00459,
        ),
        (
            facts(
                "gpt-5",
                "openai",
                input_tokens=100,
                output_tokens=30,
                cache_read_tokens=80,
                reasoning_tokens=10,
            ),
            0.000536,
        ),
    ],
)
def test_casebook_07_cost_with_cache_prices(tmp_path: Path, said: Facts, usd: float) -> None:
    """Case 07: the user's own prices, cached and written tokens at their own price."""
    path = tmp_path / "prices.toml"
    path.write_text(USER_FILE, encoding="utf-8")
    cost = Prices.load(str(path)).price(said, NOW)
    assert cost is not None
    assert abs(cost.usd - usd) <= 1e-12
