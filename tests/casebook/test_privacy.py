"""Case 19, widened: nothing of what a request or an answer holds leaves the process.

A canary is put into every field of requests and answers, of every dialect, and then looked for, in any
spelling, in everything that is exported: Prometheus text, files of worker processes, OTLP bytes, console,
spans, logs (the call log too), standard output and error. The audit log alone may hold content.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anthropic
import httpx2
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

import lz_otel
from lz_otel import testing
from lz_otel._ground.guard import guard
from lz_otel._measure import rules
from tests.casebook.bodies import ASK, SSE
from tests.casebook.helpers import CALLS, claude, json_body, settle
from tests.export.receiver import Receiver
from tests.extract import corpus, samples
from tests.extract.test_framing import frame
from tests.processes import run
from tests.wire_doubles import A_JSON, U, sse, transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAMS = Path(__file__).parent / "programs"
CANARY = "q7f3azx9"  # content: may be nowhere
ID = "i7d5kwv2"  # ids of answers: on spans by convention, nowhere else

# Names that are exported by contract, and words that tell a dialect: these stay as they are
NAMES = {
    "model",
    "modelId",
    "model_id",
    "modelVersion",
    "model_version",
    "type",
    "object",
    "event",
    "event_type",
    "role",
    "status",
    "stop_reason",
    "stopReason",
    "finish_reason",
    "finishReason",
    "finish_reasons",
    "service_tier",
    "speed",
    "inference_geo",
    "code",
    "reason",
    "__type",
    "incomplete_details",
    "done_reason",
    "level",
    "provider",
    "error_type",
}
IDS = {"id", "response_id", "responseId", "generation_id", "interaction_id"}


def marked(value: Any, name: str = "") -> Any:
    """The value with the canary in every text, and in a member of each object that nobody knows."""
    if isinstance(value, dict):
        out = {k: marked(v, k) for k, v in value.items()}
        out[f"x_{CANARY}"] = CANARY
        return out
    if isinstance(value, list):
        return [marked(v, name) for v in value]
    if isinstance(value, str) and name not in NAMES:
        return f"{value} {ID if name in IDS else CANARY}"
    return value


def marked_json(data: bytes) -> bytes:
    try:
        return json.dumps(marked(json.loads(data))).encode()
    except ValueError:
        return data + CANARY.encode()


def frames(body: bytes) -> Iterator[bytes]:
    """AWS event-stream frames with marked payloads."""
    while len(body) >= 16:
        total, head = int.from_bytes(body[:4]), int.from_bytes(body[4:8])
        headers, at, raw = {}, 0, body[12 : 12 + head]
        while at < len(raw):
            size = raw[at]
            name = raw[at + 1 : at + 1 + size].decode()
            length = int.from_bytes(raw[at + 2 + size : at + 4 + size])
            headers[name] = raw[at + 4 + size : at + 4 + size + length].decode()
            at += 4 + size + length
        payload = body[12 + head : total - 4]
        event = json.loads(payload) if payload else {}
        if isinstance(event.get("bytes"), str):
            event["bytes"] = base64.b64encode(marked_json(base64.b64decode(event["bytes"]))).decode()
            event["p"] = CANARY
            yield frame(json.dumps(event).encode(), **headers)
        else:
            yield frame(marked_json(payload), **headers)
        body = body[total:]


def marked_body(body: bytes, kind: str) -> bytes:
    """A body with canaries, in the framing of its content type."""
    if "eventstream" in kind:
        return b"".join(frames(body))
    if "json" in kind and "x-ndjson" not in kind:
        return marked_json(body)
    lines = []
    for line in body.split(b"\n"):
        head, sep, data = line.partition(b"data:") if line.startswith(b"data:") else (b"", b"", line)
        lines.append(
            head + sep + (b" " if sep else b"") + marked_json(data.strip())
            if data.strip().startswith(b"{")
            else line
        )
    return b"\n".join([*lines, b": " + CANARY.encode(), b"", b""])


MARKED_REQUEST = {
    "authorization": f"Bearer {CANARY}",
    "x-api-key": CANARY,
    "cookie": f"a={CANARY}",
    "x-tenant": CANARY,
    "user-agent": CANARY,
    "anthropic-sampling-intent": CANARY,
    "anthropic-layer-zero": "enabled",
    "anthropic-context-type": CANARY,
    "anthropic-region": CANARY,
    "x-anthropic-layer-zero": f"enabled;prune_ratio={CANARY}",
    "anthropic-beta": CANARY,
    "x-anthropic-layer-hint": f"zero-latency;priority={CANARY}",
    "x-anthropic-precision-mode": CANARY,
    "x-anthropic-cache-policy": json.dumps({"anchor_blocks": [CANARY]}),
    "openai-organization": CANARY,
    "x-stainless-retry-count": CANARY,
    "cf-aig-metadata": CANARY,
    "helicone-user-id": CANARY,
}
REPORT = base64.b64encode(
    json.dumps({"total_layers": 9, "zeroed_layers": CANARY, CANARY: 1}).encode()
).decode()
MARKED_RESPONSE = {
    "request-id": CANARY,
    "x-request-id": CANARY,
    "set-cookie": CANARY,
    "server": CANARY,
    "x-anthropic-layer": CANARY,
    "x-anthropic-zero-latency": CANARY,
    "x-anthropic-layer-served": CANARY,
    "x-anthropic-layer-zero-report": REPORT,
    "anthropic-ratelimit-requests-remaining": CANARY,
    "anthropic-ratelimit-requests-reset": CANARY,
    f"anthropic-ratelimit-{CANARY}-limit": "5",
    "x-ratelimit-remaining-tokens": CANARY,
    "retry-after": CANARY,
    "cache-status": f"{CANARY}; hit; key={CANARY}",
    "cf-aig-cache-status": CANARY,
    "helicone-cache": CANARY,
    "x-litellm-cache-key": CANARY,
    "x-litellm-model-id": CANARY,
    "x-portkey-cache-status": CANARY,
    "anthropic-organization-id": CANARY,
    "x-cache": CANARY,
    "openai-organization": CANARY,
    "x-amzn-requestid": CANARY,
}


def spellings(canary: str) -> set[bytes]:
    """The canary as it might be written: in base64 at each alignment, as hex, and as a digest of it."""
    raw = canary.encode()
    out = {raw, urllib.parse.quote(canary).encode(), raw.hex().encode(), raw.upper(), raw[::-1]}
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + raw).rstrip(b"=")
        out.add(text[(shift * 8 + 5) // 6 : -1])
    for kind in ("md5", "sha1", "sha256", "blake2b"):
        digest = hashlib.new(kind, raw).digest()
        out |= {digest.hex()[:16].encode(), base64.b64encode(digest)[:16], digest[:8]}
    return out


class Kept(logging.Handler):
    """All that our loggers say, with every argument and traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record) + repr(record.__dict__))


class Exported(NamedTuple):
    """Everything that has left: name of the way out, bytes."""

    ways: dict[str, bytes]

    def leaks(self, canary: str) -> set[tuple[str, bytes]]:
        """Ways out in which a spelling of the canary is, with what is around it."""
        found = set()
        for way, data in self.ways.items():
            for spelling in spellings(canary):
                at = data.find(spelling)
                if at >= 0:
                    found.add((way, data[max(0, at - 80) : at + 40]))
        return found


def export(
    run: Callable[[testing.Capture], None],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    **settings: Any,
) -> Exported:
    """Run under every way out at once, and collect what came out of each."""
    registry, reader, spans, logs, receiver = (
        CollectorRegistry(),
        InMemoryMetricReader(),
        InMemorySpanExporter(),
        Kept(),
        Receiver(),
    )
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    ours = logging.getLogger("lz_otel")
    level = ours.level
    ours.setLevel(logging.DEBUG)
    ours.addHandler(logs)
    guard.reset()
    try:
        with testing.capture(
            exporters="prometheus,otlp,console",
            prometheus_port=0,
            registry=registry,
            tracer_provider=tracing,
            meter_provider=MeterProvider([reader]),
            call_log=True,
            conventions="both",
            overhead_sample=1.0,
            **settings,
        ) as seen:
            run(seen)
            text = generate_latest(registry)
            data = reader.get_metrics_data()
        said = capfd.readouterr()
    finally:
        ours.removeHandler(logs)
        ours.setLevel(level)
        receiver.close()
    assert receiver.pushes
    assert data is not None
    return Exported(
        {
            "prometheus": text,
            "otlp": b"".join(p.SerializeToString() for p in receiver.pushes),
            "meter provider": data.to_json().encode(),
            "spans": "".join(s.to_json() for s in spans.get_finished_spans()).encode(),
            "logs": "\n".join(logs.lines).encode("utf-8", "replace"),
            "stdout": said.out.encode(),
            "stderr": said.err.encode(),
        }
    )


def replay(exchanges: list[corpus.Recorded], seen: testing.Capture) -> int:
    """Play recorded exchanges with canaries in every field; how many were played."""
    left: list[tuple[int, dict[str, str], bytes]] = []

    def answer(request: Any) -> Any:
        status, headers, body = left.pop()
        return status, headers, [body[i : i + 997] for i in range(0, len(body), 997)] or [b""]

    http = httpx2.Client(transport=transport(httpx2, answer))
    lz_otel.instrument_client(http)
    for one in exchanges:
        asked = one.request
        kind = one.headers.get("content-type", "application/json")
        headers = {
            k: v
            for k, v in one.headers.items()
            if k not in ("content-encoding", "content-length", "transfer-encoding")
        }
        left.append((one.status, {**headers, **MARKED_RESPONSE}, marked_body(one.body, kind)))
        body = marked_json(asked.body) if asked.body else b""
        url = f"https://u{CANARY}:p{CANARY}@{asked.host}{asked.path}?{asked.query}&key={CANARY}"
        own = {k: v for k, v in asked.headers.items() if k in ("content-type", "anthropic-version")}
        with lz_otel.operation("replay", session=CANARY):
            http.request(asked.method, url, headers={**own, **MARKED_REQUEST}, content=body).read()
    return len(exchanges)


def test_19_recorded_bodies_of_every_dialect(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Canaries in every text, header, credential and query of exchanges of all providers: none gets out."""
    counted = []

    def run(seen: testing.Capture) -> None:
        replay(samples.exchanges(), seen)
        counted.append(seen.value(CALLS))

    exported = export(
        run,
        monkeypatch,
        capfd,
        mechanisms="symbolic,pruning,intent,zeroing,scheduling,prompt_cache,response_cache",
    )
    assert counted[0] >= len(samples.exchanges()) - 1  # all but the embeddings
    assert set() == exported.leaks(CANARY)
    assert set() == {leak for leak in exported.leaks(ID) if leak[0] != "spans"}


def test_19_the_whole_corpus(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same over all recorded exchanges of the corpus, if it is here."""
    exchanges = list(corpus.exchanges(shared))[::3]
    played: list[int] = []
    exported = export(lambda seen: played.append(replay(exchanges, seen)), monkeypatch, capfd)
    assert played[0] > 50
    assert set() == exported.leaks(CANARY)
    assert set() == {leak for leak in exported.leaks(ID) if leak[0] != "spans"}


TOOL = {"name": f"tool_{CANARY}", "description": CANARY, "input_schema": {"type": "object", "title": CANARY}}
IMAGE = {
    "type": "image",
    "source": {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(CANARY.encode()).decode(),
    },
}
PROMPT: dict[str, Any] = {
    **ASK,
    "system": [
        {
            "type": "text",
            "text": f'<layer-zero enabled="true" prune_ratio="0.32"/>\n{CANARY}',
            "cache_control": {"type": "ephemeral"},
        }
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": f"my mail is {CANARY}@example.org"}, IMAGE]}
    ],
    "metadata": {"user_id": CANARY},
    "tools": [TOOL],
    "stop_sequences": [CANARY],
}
REFUSAL = {
    "type": "error",
    "error": {
        "type": f"{CANARY} was refused",
        "code": f"no {CANARY}",
        "message": f"bad prompt: {CANARY}, key sk-ant-{CANARY}",
    },
}


def answer_stream() -> list[bytes]:
    """A_FULL with the canary as its text."""
    start = {**A_JSON, "content": [], "stop_reason": None, "usage": U(1)}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": CANARY, "zeroing_mask": CANARY},
    }
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": U(20)}
    return [
        sse(e)
        for e in (
            {"type": "message_start", "message": start},
            block,
            delta,
            {"type": "content_block_stop", "index": 0},
            end,
            {"type": "message_stop"},
        )
    ]


def calls_of_the_case() -> None:
    """(a) an answer, (b) a refusal that quotes the prompt, (c) a stream, (d) no JSON;
    and failures of transport.
    """
    answers: list[tuple[Any, bool]] = [
        (json_body({**A_JSON, "content": [{"type": "text", "text": CANARY}]}), False),
        (json_body(REFUSAL, 400), False),
        (json_body(REFUSAL, 400), True),
        (lambda r: (200, SSE, answer_stream()), True),
        (lambda r: (200, SSE, [*answer_stream()[:3], sse({**REFUSAL, "type": "error"})]), True),
        (lambda r: (200, {"content-type": "application/json"}, [CANARY.encode()]), False),
        (
            lambda r: (
                200,
                {"content-type": "application/json", "content-encoding": "gzip"},
                [CANARY.encode()],
            ),
            False,
        ),
        (lambda r: httpx2.ConnectError(f"https://{CANARY}@10.0.0.1:{CANARY}", request=r), False),
        (lambda r: (200, SSE, [*answer_stream()[:3], httpx2.ReadError(CANARY)]), True),
    ]
    for answer, streamed in answers:
        client = claude(
            answer,
            api_key=f"sk-ant-{CANARY}",
            default_headers={"x-tenant": CANARY},
            max_retries=0,
            base_url=f"https://{CANARY}:{CANARY}@{CANARY}.host.test/{CANARY}",
            default_query={"key": CANARY},
        )
        with lz_otel.operation("case", session=CANARY) as operation:
            try:
                settle(client.messages.create(**PROMPT, stream=streamed))
                operation.reject(CANARY)
            except (anthropic.APIError, httpx2.HTTPError, ValueError):
                pass


def test_19_keys_prompts_answers_and_errors(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The calls of the case, through the SDK, in every mechanism's sight: nothing gets out."""
    exported = export(
        lambda seen: calls_of_the_case(),
        monkeypatch,
        capfd,
        mechanisms="symbolic,pruning,intent,zeroing,scheduling,prompt_cache,response_cache",
    )
    assert b"claude-opus-5" in exported.ways["prometheus"]
    assert b"claude-opus-5" in exported.ways["logs"]
    assert b"claude-opus-5" in exported.ways["stdout"]
    assert exported.ways["spans"]
    assert set() == exported.leaks(CANARY)


def test_19_our_own_faults_quote_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A step of ours that fails with the prompt in its message and its locals says neither."""

    def fails(ended: Any, legacy: bool = False) -> Any:
        secret = CANARY
        raise RuntimeError(f"cannot read {secret}") from ValueError(secret)

    def run(seen: testing.Capture) -> None:
        monkeypatch.setattr(rules, "call", fails)
        calls_of_the_case()
        seen.store.snapshot()

    exported = export(run, monkeypatch, capfd)
    assert b"swallowed" in exported.ways["logs"]
    assert set() == exported.leaks(CANARY)


def test_19_files_of_worker_processes(tmp_path: Path) -> None:
    """The files that workers share hold no content either."""
    folder = tmp_path / "shared"
    folder.mkdir()
    run(PROGRAMS / "worker_files.py", silent=True, PROMETHEUS_MULTIPROC_DIR=str(folder))
    exported = Exported({p.name: p.read_bytes() for p in folder.iterdir()})
    assert any(b"claude-opus-5" in data for data in exported.ways.values())
    assert set() == exported.leaks(CANARY)


@pytest.mark.parametrize("value", ["", " ", "flase", "/no/such/dir/audit.log"])
def test_19_no_option_turns_content_on_by_accident(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit log is kept in a file that was named, and by no other word:
    empty is off, a bad one is refused.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LZ_OTEL_CALL_LOG", value if value == "flase" else "")
    monkeypatch.setenv("LZ_OTEL_AUDIT_LOG", "" if value == "flase" else value)
    if value.strip():
        with pytest.raises(lz_otel.ConfigurationError):
            lz_otel.instrument(exporters="none")
    else:
        with testing.capture():
            calls_of_the_case()
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("conventions", ["", "http", "http/dup"])
def test_19_http_spans_that_we_switched_on(conventions: str) -> None:
    """No query, user, password or text of an exception is in the HTTP spans of the two modules;
    the path is.
    """
    done = run(
        PROGRAMS / "http_spans.py",
        CANARY=CANARY,
        OTEL_TRACES_EXPORTER="console",
        OTEL_SEMCONV_STABILITY_OPT_IN=conventions,
    )
    found = []
    at, text = 0, done.stdout.strip()
    while at < len(text):
        one, at = json.JSONDecoder().raw_decode(text, at)
        found.append(one)
        at += len(text[at:]) - len(text[at:].lstrip())
    by_http = [one for one in found if one["name"] == "POST"]
    assert 16 == len(by_http)
    assert 16 < len(found)  # those of the calls
    names = {"": {"http.url"}, "http": {"url.full"}, "http/dup": {"http.url", "url.full"}}[conventions]
    for one in by_http:
        for name in names:
            assert re.fullmatch(
                r"http://127\.0\.0\.1:\d+/(v1beta/models/[^?]+|elsewhere|v1/messages)",
                one["attributes"][name],
            )
    assert 8 == sum(event["name"] == "exception" for one in by_http for event in one["events"])
    assert {"ERROR"} == {one["status"]["status_code"] for one in by_http}
    assert set() == Exported({"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}).leaks(CANARY)


def test_19_the_search_finds_what_it_looks_for() -> None:
    """The canary is found in each of its spellings, wherever it stands."""
    hidden = [
        CANARY,
        base64.b64encode(f"a{CANARY}b".encode()).decode(),
        base64.b64encode(f"ab{CANARY}bc".encode()).decode(),
        CANARY.encode().hex(),
        hashlib.sha256(CANARY.encode()).hexdigest(),
    ]
    for text in hidden:
        assert Exported({"x": f"..{text}..".encode()}).leaks(CANARY), text
    assert set() == Exported({"x": b"nothing of it"}).leaks(CANARY)
