"""The builder writes PromQL as people would, and refuses what the catalogue does not know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel import catalogue as c
from lz_otel.bundle.promql import (
    DASHBOARD_SCOPE,
    Builder,
    Expr,
    Not,
    Recorded,
    Regex,
    Var,
    literal,
    quantile_of,
    ratio,
    variable,
    vector,
)
from lz_otel.errors import CatalogueError

B = Builder()


def test_selector_with_every_kind_of_matcher() -> None:
    """Literals, alternations, variables, regular expressions and their negations each have their sign."""
    selected = B.count(
        c.INFERENCE_DURATION,
        lz_ending=("error", "incomplete"),
        lz_path=Not("fast"),
        error_type=Not(("a.b", "c")),
        lz_route=Var("route"),
        lz_group=Not(Var("control", exact=True)),
        gen_ai_request_model=Regex("gpt-.+"),
    )
    expected = (
        'gen_ai_client_inference_duration_seconds_count{lz_ending=~"error|incomplete",lz_path!="fast",'
        'error_type!~"a\\\\.b|c",lz_route=~"$route",lz_group!="$control",gen_ai_request_model=~"gpt-.+"}'
    )
    assert expected == selected.text


def test_scope_is_used_where_the_metric_has_the_label() -> None:
    """Operations have no model, and limits no route, so neither is filtered by it."""
    b = Builder(DASHBOARD_SCOPE)
    assert (
        'lz_operation_fallbacks_total{job=~"$job",instance=~"$instance",lz_route=~"$route"}'
        == b.counter(c.OPERATION_FALLBACKS).text
    )
    assert "lz_route" not in b.gauge(c.RATE_LIMIT_LIMIT).text


def test_ratio_is_zero_without_parts_and_nothing_without_a_whole() -> None:
    """The numerator falls back to 0 times the denominator, which must be above 0."""
    part, whole = vector(1), vector(2)
    assert "(vector(1) or 0 * vector(2)) / (vector(2) > 0)" == str(ratio(part, whole))


def test_brackets_follow_precedence() -> None:
    """A weaker operator on the left, or an equally strong one on the right, is put in brackets."""
    a, b, d = (Expr(x, frozenset({"job"})) for x in "abd")
    assert "(a + b) * d" == str((a + b) * d)
    assert "a - (b - d)" == str(a - (b - d))
    assert "1 - a / b" == str(1 - a / b)
    assert "(a > 1 or b < 2) and on (job) d" == str(a.above(1).or_(b.below(2)).and_(d, on=("job",)))


@given(st.integers(0, 5), st.lists(st.sampled_from("+-*/"), min_size=1, max_size=5))
def test_arithmetic_means_what_python_means(seed: int, operators: list[str]) -> None:
    """Whatever is combined, the text evaluates to the figure that Python gets for the same combination."""
    text, value = literal(seed + 1), float(seed + 1)
    for position, operator in enumerate(operators):
        other = float(position + 2)
        left = position % 2 == 0
        text = text.op(operator, other) if left else literal(other).op(operator, text)
        x, y = (value, other) if left else (other, value)
        if operator == "/" and y == 0:
            return
        value = {"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else 0}[operator]
    assert value == pytest.approx(eval(str(text)))


def test_quantile_sums_buckets_before_it_asks() -> None:
    """A percentile comes from summed bucket rates, never from an average of percentiles."""
    assert (
        "histogram_quantile(0.95, sum by (le, job) (rate(lz_call_time_to_first_token_seconds_bucket[5m])))"
        == str(B.quantile(0.95, c.TIME_TO_FIRST_TOKEN, "5m", ("job",)))
    )
    buckets = B.recorded(Recorded("level:x_bucket:rate5m", ("job", "le")))
    assert "histogram_quantile(0.5, sum by (le) (level:x_bucket:rate5m))" == str(quantile_of(0.5, buckets))


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda: B.counter(c.ATTEMPTS, colour="red"), "no label 'colour'"),
        (lambda: B.counter(c.ATTEMPTS, status="418"), "'418' is not a value of status"),
        (lambda: B.counter(c.ATTEMPTS, status=Not(("200", "299"))), "'299' is not a value"),
        (lambda: B.counter(c.ATTEMPTS, status=Regex("9..")), "matches no value"),
        (lambda: B.bucket(c.INFERENCE_DURATION, le="1"), "no label 'le'"),
        (lambda: B.counter(c.INFERENCE_DURATION), "is a histogram"),
        (lambda: B.gauge(c.ATTEMPTS), "is a counter"),
        (lambda: B.count(c.OPERATION_DURATION, gen_ai_request_model="x"), "no label"),
        (lambda: B.counter(c.Metric("lz.attempts", "counter", "{attempt}", (), "")), "not a metric"),
        (lambda: B.counter(c.ATTEMPTS).rate("5 m"), "no duration"),
        (lambda: B.counter(c.ATTEMPTS).rate("5m").sum("jbo"), "not among the labels"),
        (lambda: B.counter(c.ATTEMPTS).rate("5m").sum("job").sum("status"), "not among the labels"),
        (lambda: B.counter(c.ATTEMPTS).running("job"), "'instance'"),
        (lambda: B.counter(c.ATTEMPTS).rate("5m").sum("job").or_zero(), "adds a series"),
        (lambda: vector(1).and_(B.gauge(c.CALL_ACTIVE), on=("job",)), "does not carry"),
        (lambda: vector(1).op("xor", 1), "no operator"),
        (lambda: B.recorded(Recorded("a:b:c", ("job",)), status="200"), "no label"),
        (lambda: variable("a b"), "no name of a variable"),
        (lambda: Builder({"a-b": "c"}), "no name of a label"),
        (lambda: B.gauge(c.CALL_ACTIVE).label_replace("x", "$1", "y", ".*"), "not among the labels"),
    ],
)
def test_what_the_catalogue_does_not_know_is_refused(wrong: object, word: str) -> None:
    """Unknown metrics, labels, values and windows raise CatalogueError with the reason."""
    with pytest.raises(CatalogueError) as caught:
        wrong()  # type: ignore[operator]  # a parametrised call
    assert word in str(caught.value)


def test_values_are_quoted() -> None:
    """Quotes, backslashes and line breaks in a literal cannot leave it."""
    assert 'lz_attempts_total{lz_route="a\\"b\\\\c\\nd"}' == B.counter(c.ATTEMPTS, lz_route='a"b\\c\nd').text
