"""Gateways with a response cache of their own: stored answers, and the headers that tell (D).

One gateway at a time stands in front of the simulated provider. A hit replays the stored
body at once; OpenRouter sets all usage counters to 0, Helicone replays the stored headers
of the provider too.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lz_otel.lab.simulator._context import Answer
from lz_otel.lab.simulator._draw import Draw
from lz_otel.lab.simulator._tokens import encode
from lz_otel.lab.simulator._truth import Mechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel.lab.simulator._clock import Clock
    from lz_otel.lab.simulator._context import Headers
    from lz_otel.lab.simulator._truth import Record
    from lz_otel.lab.simulator.scenario import Behaviour, Gateway

OWN_HEADER = b"x-my-cache"
_USAGE = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


class _Stored(NamedTuple):
    at: float
    headers: Headers
    body: bytes
    chunked: bool
    model: str
    stream: bool
    usage: dict[str, int]
    source: str


class ResponseCache:
    """The store of the gateway, keyed by path, credentials and body.

    Args:
        clock: the simulator's time.
        seed: seed of the draws.
        limit: answers kept.
    """

    def __init__(self, clock: Clock, seed: int, limit: int = 20_000) -> None:
        self._clock = clock
        self._seed = seed
        self._limit = limit
        self._stored: OrderedDict[bytes, _Stored] = OrderedDict()
        self._has_hit = False

    def reset(self) -> None:
        """Forget all answers."""
        self._stored.clear()
        self._has_hit = False

    def through(
        self,
        behaviour: Behaviour,
        headers: dict[bytes, bytes],
        raw: bytes,
        record: Record,
        upstream: Callable[[dict[bytes, bytes], bytes, Record], Answer],
    ) -> Answer:
        """Answer from the store, or ask the provider and keep its answer."""
        part = behaviour.gateway
        draw = Draw(
            self._seed, f"gw{record.call}#{record.attempt}" if record.call else f"gw@{record.ordinal}"
        )
        asked = _asked(part.name, headers)
        credentials = headers.get(b"authorization") or headers.get(b"x-api-key") or b""
        key = blake2b(record.api.encode() + b"\x00" + credentials + b"\x00" + raw, digest_size=16).digest()
        refresh = asked and (
            headers.get(b"x-portkey-cache-force-refresh") == b"true"
            or draw.chance("refresh", part.refresh_rate)
        )
        bypass = not asked or draw.chance("bypass", part.bypass_rate)
        stored = None if bypass or refresh else self._stored.get(key)
        if stored is not None and self._clock.now() - stored.at > part.ttl:
            stored = None
        if stored is not None:
            return self._hit(part, draw, stored, record, behaviour.latency.scale)
        answer = upstream(headers, raw, record)
        state = "bypass" if bypass else "refresh" if refresh else "miss"
        added, verdict = _miss_headers(part, draw, state, asked, self._has_hit, record)
        answer.headers += added
        if verdict is not None and (200 <= answer.status < 300 or verdict.verdict == "fallback"):
            record.mechanisms["response_cache"] = verdict
        if state != "bypass" and answer.status == 200 and not record.fault:
            self._keep_later(key, answer, record)
        return answer

    def _keep_later(self, key: bytes, answer: Answer, record: Record) -> None:
        body = b"".join(data for _, data in answer.pieces)
        usage = {name: getattr(record, name) for name in _USAGE}
        source = f"gen-{record.ordinal:012x}"
        headers = list(answer.headers)

        def keep() -> None:
            self._stored[key] = _Stored(
                self._clock.now(), headers, body, answer.chunked, record.model, record.stream, usage, source
            )
            if len(self._stored) > self._limit:
                self._stored.popitem(last=False)

        before = answer.on_end

        def end() -> None:
            keep()
            if before is not None:
                before()

        answer.on_end = end

    def _hit(self, part: Gateway, draw: Draw, stored: _Stored, record: Record, scale: float) -> Answer:
        self._has_hit = True
        age = int(self._clock.now() - stored.at)
        semantic = draw.chance("semantic", part.semantic_rate)
        added = _hit_headers(part, draw, stored, record, age, semantic)
        body = stored.body
        if part.name == "openrouter":
            body = zero_usage(body, stored.chunked)
        kept = [h for h in stored.headers if h[0] == b"content-type" or part.name == "helicone"]
        kept = [h for h in kept if not h[0].startswith(b"helicone-")]
        answer = Answer(200, [*kept, *added], [(0.0, body)], chunked=stored.chunked)
        ms = draw.band("gateway.hit", part.hit_ms) * scale
        answer.wait = ms / 1000.0
        record.status = 200
        record.model, record.stream = stored.model, stored.stream
        record.path, record.served_by = "fast", "response_cache"
        record.waited_ms = round(ms, 3)
        record.usage_sent = "zero" if part.name == "openrouter" else "replayed"
        facts: dict[str, Any] = {"gateway": part.name, "age": age, "semantic": semantic, **stored.usage}
        record.mechanisms["response_cache"] = Mechanism("hit", facts=facts)
        return answer


def _asked(name: str, headers: dict[bytes, bytes]) -> bool:
    """Return whether this request asks for the cache, where the client has to."""
    if name == "cloudflare":
        return headers.get(b"cf-aig-skip-cache") != b"true"
    if name == "helicone":
        return headers.get(b"helicone-cache-enabled") == b"true"
    if name == "openrouter":
        return headers.get(b"x-openrouter-cache") == b"true"
    if name == "portkey":
        return b"cache" in headers.get(b"x-portkey-config", b"")
    return True


def _hit_headers(
    part: Gateway, draw: Draw, stored: _Stored, record: Record, age: int, semantic: bool
) -> Headers:
    left = max(0, int(part.ttl) - age)
    name = part.name
    if name == "cloudflare":
        return [
            (b"cf-aig-cache-status", b"HIT"),
            (b"cf-aig-log-id", _id(record)),
            (b"cf-cache-status", b"DYNAMIC"),
        ]
    if name == "helicone":
        return [
            (b"helicone-cache", b"HIT"),
            (b"helicone-cache-bucket-idx", b"0"),
            (b"helicone-id", _id(record)),
        ]
    if name == "portkey":
        value = b"SEMANTIC HIT" if semantic else b"HIT"
        return [(b"x-portkey-cache-status", value), (b"x-portkey-trace-id", _id(record))]
    if name == "litellm":
        return [
            *_litellm(record),
            (b"x-litellm-cache-key", _id(record)),
            (b"x-litellm-response-cost", b"0.00042"),
        ]
    if name == "kong":
        return [(b"x-cache-status", b"Hit"), (b"x-cache-key", _id(record)), (b"age", b"%d" % age)]
    if name == "openrouter":
        return [
            (b"x-openrouter-cache-status", b"HIT"),
            (b"x-openrouter-cache-age", b"%d" % age),
            (b"x-openrouter-cache-ttl", b"%d" % left),
            (b"x-openrouter-cache-source-id", stored.source.encode()),
            (b"x-generation-id", _id(record)),
        ]
    if name == "fastly":
        return [(b"x-cache", draw.pick("fastly", (b"HIT", b"MISS, HIT", b"HIT, HIT"))), (b"age", b"%d" % age)]
    if name == "rfc9211":
        own = b"Edge; hit; ttl=%d" % left
        return [(b"cache-status", draw.pick("rfc", (own, b"Origin; fwd=uri-miss; stored, " + own)))]
    return [(OWN_HEADER, b"HIT")]


# Gateways that name their cache's state in a header of their own (D).
_STATUS = {
    "cloudflare": b"cf-aig-cache-status",
    "helicone": b"helicone-cache",
    "openrouter": b"x-openrouter-cache-status",
}


def _miss_headers(
    part: Gateway, draw: Draw, state: str, asked: bool, told_before: bool, record: Record
) -> tuple[Headers, Mechanism | None]:
    """Return headers of an answer that the provider gave, and what a client can conclude from them."""
    name = part.name
    fell_back = name in ("cloudflare", "litellm") and draw.chance("gateway.fallback", part.fallback_rate)
    retried = name in ("portkey", "litellm") and draw.chance("gateway.retry", part.retry_rate)
    out: Headers = []
    verdict: Mechanism | None = Mechanism("miss") if state == "miss" else Mechanism("bypass")
    if name in _STATUS:
        if state == "miss":
            out.append((_STATUS[name], b"MISS"))
        else:
            verdict = Mechanism("bypass", visible=False) if asked else None
        if name == "cloudflare":
            out += [(b"cf-aig-step", b"1" if fell_back else b"0"), (b"cf-cache-status", b"DYNAMIC")]
        else:
            out.append((b"helicone-id" if name == "helicone" else b"x-generation-id", _id(record)))
    elif name == "portkey":
        words = {"miss": b"MISS", "refresh": b"REFRESH"}
        out = [
            (b"x-portkey-cache-status", words.get(state, b"DISABLED")),
            (b"x-portkey-trace-id", _id(record)),
            (b"x-portkey-retry-attempt-count", b"2" if retried else b"0"),
        ]
        if state == "bypass":
            verdict = None
    elif name == "litellm":
        repeated = (b"x-litellm-attempted-retries", b"1" if retried else b"0")
        out = [*_litellm(record), repeated, (b"x-litellm-attempted-fallbacks", b"1" if fell_back else b"0")]
        if verdict is not None:
            verdict.visible = False  # only the presence of a key shows it
    elif name == "kong":
        out = [(b"x-cache-status", {"bypass": b"Bypass", "refresh": b"Refresh"}.get(state, b"Miss"))]
        verdict = Mechanism("bypass" if state == "bypass" else "miss")  # Refresh: found, and not used
    elif name == "fastly":
        out = [(b"x-cache", b"MISS")]
        if verdict is not None:  # a pass reads the same, and so does a cache that is off
            verdict.visible = state == "miss" and told_before
    elif name == "rfc9211":
        words = {"miss": b"Edge; fwd=uri-miss; stored", "refresh": b"Edge; fwd=request; stored"}
        out = [(b"cache-status", words.get(state, b"Edge; fwd=bypass"))]
        if verdict is not None:
            verdict.visible = state != "bypass"
    else:
        out = [(OWN_HEADER, b"MISS" if state == "miss" else b"BYPASS")]
    if fell_back or retried:
        also = {"also": "gateway_retry"} if fell_back and retried else {}
        verdict = Mechanism("fallback", "gateway_fallback" if fell_back else "gateway_retry", facts=also)
    return out, verdict


def _id(record: Record) -> bytes:
    return b"sim-%012x" % record.ordinal


def _litellm(record: Record) -> Headers:
    return [
        (b"x-litellm-call-id", _id(record)),
        (b"x-litellm-version", b"1.90.0"),
        (b"x-litellm-model-id", b"deployment-1"),
    ]


def _zeroed(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _zeroed(v) for k, v in value.items()}
    if isinstance(value, int) and not isinstance(value, bool):
        return 0
    return value


def _without_usage(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _zeroed(v) if k == "usage" else _without_usage(v) for k, v in value.items()}
    return value


def zero_usage(body: bytes, sse: bool) -> bytes:
    """Return the same body with every usage counter set to 0."""
    if not sse:
        return encode(_without_usage(msgspec.json.decode(body)))
    lines = []
    for line in body.split(b"\n"):
        if line.startswith(b"data: {") and b'"usage"' in line:
            line = b"data: " + encode(_without_usage(msgspec.json.decode(line[6:])))
        lines.append(line)
    return b"\n".join(lines)
