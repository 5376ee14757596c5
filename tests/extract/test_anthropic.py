"""Anthropic Messages: cumulative usage, content, errors, what mechanisms need."""

from __future__ import annotations

from typing import Any

import pytest

from tests.extract.build import MESSAGES, answer, dumps, reader, sse, tokens

ASKED = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
STREAMED = {**ASKED, "stream": True}


def usage(output: int, **more: Any) -> dict[str, Any]:
    """4 uncached, 2000 read, 100 written."""
    return {
        "input_tokens": 4,
        "cache_read_input_tokens": 2000,
        "cache_creation_input_tokens": 100,
        "output_tokens": output,
        **more,
    }


def message(stated: Any, **more: Any) -> dict[str, Any]:
    """A whole message."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "end_turn",
        "usage": stated,
        **more,
    }


def delta(**fields: Any) -> dict[str, Any]:
    """A content_block_delta."""
    return {"type": "content_block_delta", "index": 0, "delta": fields}


START = {"type": "message_start", "message": {**message(usage(1)), "content": [], "stop_reason": None}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
HEL, LO = delta(type="text_delta", text="hel"), delta(type="text_delta", text="lo")
BLOCK_STOP = {"type": "content_block_stop", "index": 0}
STOP = {"type": "message_stop"}


def ended(stated: Any) -> dict[str, Any]:
    """A message_delta with this usage."""
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": stated}


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (usage(20), (2104, 2000, 100, 20)),
        ({"input_tokens": 50, "output_tokens": 5}, (50, None, None, 5)),
        (
            {
                "input_tokens": 50,
                "output_tokens": 5,
                "cache_read_input_tokens": None,
                "cache_creation_input_tokens": None,
            },
            (50, None, None, 5),
        ),
    ],
)
def test_input_is_the_sum_of_its_parts(stated: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    """Casebook 01: the three input counts are disjoint; absent and null parts say nothing."""
    facts = answer(MESSAGES, ASKED, dumps(message(stated)))
    assert expected == tokens(facts)
    assert facts.usage_seen
    assert facts.output_final
    assert facts.terminal
    assert [] == facts.malformed


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([usage(20)], (2104, 2000, 100, 20)),
        ([{"output_tokens": 20}], (2104, 2000, 100, 20)),
        ([usage(7), usage(20)], (2104, 2000, 100, 20)),
        ([usage(20) | {"input_tokens": 30}], (2130, 2000, 100, 20)),
        ([usage(20) | {"cache_read_input_tokens": 0}], (2104, 2000, 100, 20)),
        ([usage(20) | {"input_tokens": 0, "cache_creation_input_tokens": 40.0}], (2104, 2000, 100, 20)),
        ([usage(20) | {"cache_read_input_tokens": None}], (2104, 2000, 100, 20)),
    ],
)
def test_usage_of_a_stream_is_cumulative(ends: list[dict[str, Any]], expected: tuple[int, ...]) -> None:
    """Casebook 02: each value a message_delta states replaces the earlier one, also a smaller one."""
    facts = answer(MESSAGES, STREAMED, sse(START, BLOCK, HEL, LO, BLOCK_STOP, *map(ended, ends), STOP))
    assert expected == tokens(facts)
    assert (True, True, True, ["end_turn"]) == (
        facts.usage_seen,
        facts.output_final,
        facts.terminal,
        facts.finish_reasons,
    )
    assert 6 + len(ends) == facts.sse_events


def test_a_stream_that_breaks_off_has_no_final_output() -> None:
    """The placeholder of message_start is kept, but it is not the provider's last word."""
    facts = answer(MESSAGES, STREAMED, sse(START, BLOCK, HEL))
    assert (2104, 2000, 100, 1) == tokens(facts)
    assert (False, False, False) == (facts.usage_seen, facts.output_final, facts.terminal)


def test_first_token_is_not_the_first_event() -> None:
    """Casebook 08: content begins with the first non-empty delta; gaps lie between pieces with content."""
    facts = answer(
        MESSAGES,
        STREAMED,
        sse(START),
        sse(BLOCK, delta(type="text_delta", text="")),
        sse(HEL),
        sse({"type": "ping"}),
        sse(LO, LO),
        sse(BLOCK_STOP, ended(usage(3)), STOP),
    )
    assert (2.0, 4.0, 3) == (facts.first_content_at, facts.last_content_at, facts.content_events)
    counts, total, number = facts.chunk_gaps
    assert (2.0, 1) == (total, number)
    assert 1 == sum(counts)
    assert 17 == counts.index(1)  # the bucket up to 2.5 s


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"type": "text_delta", "text": "x"}, 1),
        ({"type": "text_delta", "text": ""}, 0),
        ({"type": "thinking_delta", "thinking": "x"}, 1),
        ({"type": "input_json_delta", "partial_json": '{"a'}, 1),
        ({"type": "input_json_delta", "partial_json": ""}, 0),
        ({"type": "signature_delta", "signature": "abc"}, 0),
        ({"type": "citations_delta", "citation": {}}, 0),
        ({"type": "text_delta", "text": 7}, 0),
    ],
)
def test_what_is_content(fields: dict[str, Any], expected: int) -> None:
    """Text, thinking and tool input are content; signatures and empty pieces are not."""
    facts = answer(MESSAGES, STREAMED, sse(START), sse(delta(**fields)))
    assert expected == facts.content_events
    assert bool(expected) == facts.has_content


def test_events_without_names() -> None:
    """A proxy that drops the event lines changes nothing."""
    named = sse(START, BLOCK, HEL, LO, ended(usage(20)), STOP)
    bare = b"".join(line + b"\n" for line in named.split(b"\n")[:-1] if not line.startswith(b"event:"))
    facts = answer(MESSAGES, STREAMED, bare)
    assert (2104, 2000, 100, 20) == tokens(facts)
    assert (2, True) == (facts.content_events, facts.terminal)


def test_sinks_get_all_in_order() -> None:
    """Text and masks reach their sinks whole and in order, whatever the chunking; a plain body too."""
    stream = sse(
        START,
        BLOCK,
        HEL,
        delta(type="text_delta", text=" ", zeroing_mask=[True, False]),
        LO,
        delta(zeroing_mask="[True, False]"),
        delta(type="thinking_delta", thinking="no"),
    )
    for size in (1, 50, len(stream)):
        found = reader(MESSAGES, STREAMED)
        assert found is not None
        texts: list[str] = []
        masks: list[Any] = []
        found.facts.text_sink, found.facts.mask_sink = texts.append, masks.append
        found.head(200, {"content-type": "text/event-stream"})
        for at in range(0, len(stream), size):
            found.feed(stream[at : at + size], 0.0)
        assert ["hel", " ", "lo"] == texts
        assert [[True, False], "[True, False]"] == masks
    found = reader(MESSAGES, ASKED)
    assert found is not None
    found.facts.text_sink = texts.append
    found.feed(dumps(message(usage(1))), 0.0)
    found.finish(True)
    assert "hello" == texts[-1]


def test_a_sink_that_raises_breaks_nothing() -> None:
    """The exception passes through feed; what was read before it and comes after it still counts."""
    found = reader(MESSAGES, STREAMED)
    assert found is not None

    def sink(text: str) -> None:
        raise RuntimeError(text)

    found.facts.text_sink = sink
    found.head(200, {"content-type": "text/event-stream"})
    found.feed(sse(START), 0.0)
    with pytest.raises(RuntimeError, match="hel"):
        found.feed(sse(HEL), 1.0)
    found.facts.text_sink = None
    found.feed(sse(LO, ended(usage(20)), STOP), 2.0)
    found.finish(True)
    assert (2, 1.0, 2.0) == (
        found.facts.content_events,
        found.facts.first_content_at,
        found.facts.last_content_at,
    )
    assert (2104, 2000, 100, 20) == tokens(found.facts)


@pytest.mark.parametrize("before", [[], [START, BLOCK, HEL]])
def test_error_inside_a_200(before: list[Any]) -> None:
    """Casebook 13: an error event of a 200 stream has the type a 529 has."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    facts = answer(MESSAGES, STREAMED, sse(*before, error))
    plain = answer(MESSAGES, STREAMED, dumps(error), status=529)
    assert ("overloaded_error", True, False) == (facts.error_type, facts.stream_error, facts.terminal)
    assert ("overloaded_error", False) == (plain.error_type, plain.stream_error)
    assert "Overloaded" == facts.error_message == plain.error_message


def test_spend_limit_code() -> None:
    """The finer code of a spend limit is kept beside the type."""
    error = {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": "x",
            "details": {"error_code": "enforced_spend_limit_reached"},
        },
    }
    facts = answer(MESSAGES, ASKED, dumps(error), status=429)
    assert ("rate_limit_error", "enforced_spend_limit_reached") == (facts.error_type, facts.error_code)


def test_reports_of_the_vendor() -> None:
    """Cache diagnosis, layer_zero, split of writes, tier, speed and place are taken over."""
    stated = usage(
        20,
        layer_zero={"pruned_tokens": 7},
        service_tier="priority",
        speed="fast",
        inference_geo="us",
        cache_creation={"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40},
        output_tokens_details={"thinking_tokens": 5},
    )
    body = message(
        stated, diagnostics={"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 9}}
    )
    for facts in (
        answer(MESSAGES, ASKED, dumps(body)),
        answer(
            MESSAGES,
            STREAMED,
            sse({"type": "message_start", "message": body}, ended({"output_tokens": 20}), STOP),
        ),
    ):
        assert "tools_changed" == facts.cache_diagnosis
        assert {"pruned_tokens": 7} == facts.layer_zero
        assert (60, 40, 5) == (
            facts.cache_write_5m_tokens,
            facts.cache_write_1h_tokens,
            facts.reasoning_tokens,
        )
        assert ("priority", "fast", "us") == (facts.service_tier, facts.speed, facts.inference_geo)


@pytest.mark.parametrize("diagnostics", [None, {"cache_miss_reason": None}, {}, []])
def test_no_diagnosis(diagnostics: Any) -> None:
    """No divergence, or not ready: no word."""
    assert answer(MESSAGES, ASKED, dumps(message(usage(1), diagnostics=diagnostics))).cache_diagnosis is None


def test_billed_besides() -> None:
    """Iterations that the top-level usage leaves out are kept for the price."""
    entries = [
        {"type": "message", "input_tokens": 1},
        {"type": "compaction", "input_tokens": 55196, "output_tokens": 131},
    ]
    facts = answer(MESSAGES, ASKED, dumps(message(usage(1, iterations=entries))))
    assert [entries[1]] == facts.billed_besides


def test_server_side_fallback_names_who_answered() -> None:
    """After a fallback the response model is the one that answered, plain and streamed."""
    last = {"type": "fallback_message", "model": "claude-opus-5", "output_tokens": 1}
    facts = answer(MESSAGES, ASKED, dumps(message(usage(1, iterations=[last]), model="claude-fable-5")))
    block = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "fallback", "to": {"model": "claude-opus-5"}},
    }
    stream = answer(
        MESSAGES,
        STREAMED,
        sse({"type": "message_start", "message": message(usage(1), model="claude-fable-5")}, block),
    )
    assert "claude-opus-5" == facts.response_model == stream.response_model


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "12",
        [],
        {"input_tokens": "12", "output_tokens": 1},
        {"input_tokens": -5},
        {"input_tokens": True},
        {"input_tokens": 2**63},
        {"input_tokens": 1.5},
    ],
)
def test_usage_that_is_no_usage(bad: Any) -> None:
    """Casebook 20: only non-negative integers of sane size count; the rest of the message still stands."""
    facts = answer(MESSAGES, ASKED, dumps(message(bad)))
    assert facts.input_tokens is None
    assert not facts.usage_seen
    assert ("claude-opus-5", "msg_1", True) == (facts.response_model, facts.response_id, facts.terminal)
    assert ([] if bad is None else ["usage"]) == facts.malformed


def test_number_out_of_range() -> None:
    """A number that no float holds spoils its own count and nothing else."""
    body = dumps(message(usage(20))).replace(b'"input_tokens":4', b'"input_tokens":1e400')
    facts = answer(MESSAGES, ASKED, body)
    assert (None, 2000, 100, 20) == tokens(facts)
    assert ("msg_1", ["usage"]) == (facts.response_id, facts.malformed)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("m" * 10_000, "other"),
        ("a\nb", "other"),
        ("a\0b", "other"),
        ("\ud800", "other"),
        ('a"b\\c', 'a"b\\c'),
        ("", None),
        (7, None),
    ],
)
def test_hostile_model_names(model: Any, expected: str | None) -> None:
    """Casebook 18: a name that no label can hold becomes other, in a body as in a stream."""
    plain = answer(MESSAGES, ASKED, dumps(message(usage(20), model=model)))
    stream = answer(
        MESSAGES,
        STREAMED,
        sse({"type": "message_start", "message": message(usage(1), model=model)}, ended(usage(20)), STOP),
    )
    assert (expected, expected) == (plain.response_model, stream.response_model)
    assert (2104, 2000, 100, 20) == tokens(plain) == tokens(stream)


def test_a_pair_of_surrogates_in_two_pieces() -> None:
    """Half an emoji per delta is what some servers send; it is content and no fault."""
    stream = (
        b'event: content_block_delta\ndata: {"type":"content_block_delta",'
        b'"delta":{"type":"text_delta","text":"\\ud83d"}}\n\n'
    )
    facts = answer(MESSAGES, STREAMED, sse(START), stream)
    assert (1, []) == (facts.content_events, facts.malformed)


def test_count_tokens_is_no_call() -> None:
    """Casebook 25: a count is neither usage nor a call."""
    facts = answer(MESSAGES + "/count_tokens", ASKED, b'{"input_tokens":2104}')
    assert (2104, None, False, False) == (
        facts.counted_tokens,
        facts.input_tokens,
        facts.llm_call,
        facts.usage_seen,
    )
    assert "count_tokens" == facts.operation


def test_request_fields() -> None:
    """One decode gives what mechanisms need; long values are slices of the body."""
    body = {
        **STREAMED,
        "system": [{"type": "text", "text": "s"}],
        "tools": [{"name": "t"}],
        "cache_control": {"type": "ephemeral"},
        "metadata": {"user_id": "u"},
        "zeroing_threshold": 0.3,
        "stability_window": 5,
        "impact_tolerance": 0.1,
        "user_segment": "a",
        "diagnostics": {"previous_message_id": None},
        "speed": "fast",
        "service_tier": "auto",
        "temperature": 0.5,
    }
    found = reader(MESSAGES, body)
    assert found is not None
    fields = found.facts.request_fields
    assert [b'{"role":"user","content":"hi"}'] == [bytes(one) for one in fields.messages]
    assert b'[{"type":"text","text":"s"}]' == bytes(fields.system)
    assert b'[{"name":"t"}]' == bytes(fields.tools)
    assert ({"type": "ephemeral"}, 0.3, 5, 0.1, "a") == (
        fields.cache_control,
        fields.zeroing_threshold,
        fields.stability_window,
        fields.impact_tolerance,
        fields.user_segment,
    )
    assert (10, 0.5, "fast", "auto", {"previous_message_id": None}) == (
        fields.max_tokens,
        fields.temperature,
        fields.speed,
        fields.service_tier,
        fields.diagnostics,
    )


def test_a_request_of_wrong_kinds_is_still_a_call() -> None:
    """A bad request goes to the vendor too; what can be read of it is read."""
    found = reader(MESSAGES, {"model": "claude-opus-5", "messages": "hi", "stream": "yes"})
    assert found is not None
    assert ("claude-opus-5", False) == (found.facts.request_model, found.facts.stream)


def test_a_comment_is_no_event_line() -> None:
    """A comment before the data of an event does not lend it the name of the event before."""
    stop = b": hello\ndata: " + dumps(STOP) + b"\n\n"
    facts = answer(MESSAGES, STREAMED, sse(START), sse(HEL), stop)
    assert (1, True, 3) == (facts.content_events, facts.terminal, facts.sse_events)


def test_finish_is_once() -> None:
    """After finish nothing changes any more, whatever still comes."""
    found = reader(MESSAGES, ASKED)
    assert found is not None
    found.feed(dumps(message({"input_tokens": "12", "output_tokens": 1})), 0.0)
    found.finish(True)
    found.feed(dumps(message(usage(20))), 0.0)
    found.finish(True)
    assert (1, ["usage"]) == (found.facts.output_tokens, found.facts.malformed)


def test_an_error_status_is_no_stream_error() -> None:
    """An error event in the body of an error status is not an error inside a 200."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}
    facts = answer(MESSAGES, STREAMED, sse(error), status=529)
    assert ("overloaded_error", False) == (facts.error_type, facts.stream_error)


@pytest.mark.parametrize("complete", [True, False])
def test_a_body_that_was_cut_tells_what_is_whole(complete: bool) -> None:
    """Of a body that was cut, its whole members are read; it is not terminal."""
    body = dumps(message(usage(20)))
    facts = answer(MESSAGES, ASKED, body[: body.index(b'"stop_reason"') + 5], complete=complete)
    assert ("claude-opus-5", "msg_1", True) == (facts.response_model, facts.response_id, facts.has_content)
    assert (None, False, False) == (facts.input_tokens, facts.usage_seen, facts.terminal)
    assert (["body"] if complete else []) == facts.malformed
    cut_in_usage = body[: body.index(b'"output_tokens"') + 16]
    assert answer(MESSAGES, ASKED, cut_in_usage, complete=False).input_tokens is None


def test_junk_after_a_body() -> None:
    """A body that goes on with junk says what it says, and is noted."""
    facts = answer(MESSAGES, ASKED, dumps(message(usage(20))) + b"junk")
    assert ((2104, 2000, 100, 20), ["body"]) == (tokens(facts), facts.malformed)


def test_empty_pieces() -> None:
    """Empty pieces are no events, before and within a stream."""
    facts = answer(MESSAGES, STREAMED, sse(START), b"", sse(HEL), b"", sse(STOP))
    assert (3, 1, True) == (facts.sse_events, facts.content_events, facts.terminal)
    found = reader(MESSAGES, STREAMED)
    assert found is not None
    found.feed(b"", 0.0)
    found.feed(sse(STOP), 0.0)
    found.finish(True)
    assert (1, True) == (found.facts.sse_events, found.facts.terminal)
