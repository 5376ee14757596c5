"""Gateways with a response cache of their own: stored answers, and the headers that tell (D).

One gateway at a time stands in front of the simulated provider. A hit replays the stored
body at once; OpenRouter sets all usage counters to 0, Helicone replays the stored headers
of the provider too.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lz_otel._ground.memory import BoundedMap
from lz_otel.lab.simulator._context import Answer, draw_key
from lz_otel.lab.simulator._draw import Draw
from lz_otel.lab.simulator._tokens import encode
from lz_otel.lab.simulator._truth import Mechanism

if TYPE_CHECKING:
    from lz_otel.lab.simulator._clock import Clock
    from lz_otel.lab.simulator._context import Headers, Upstream
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
    """The store of the gateway, keyed by path, credentials and body; the seed is that of the draws."""

    def __init__(self, clock: Clock, seed: int) -> None:
        self._clock = clock
        self._seed = seed
        self._stored: BoundedMap[bytes, _Stored] = BoundedMap(20_000)
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
        upstream: Upstream,
    ) -> Answer:
        """Answer from the store, or ask the provider and keep its answer."""
        part = behaviour.gateway
        draw = Draw(self._seed, "gw" + draw_key(record))
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
        before = answer.on_end

        def end() -> None:
            stored = _Stored(
                self._clock.now(), headers, body, answer.chunked, record.model, record.stream, usage, source
            )
            self._stored.put(key, stored)
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
        ms = draw.band("gateway.hit", part.hit_ms) * scale
        answer = Answer(200, [*kept, *added], [(0.0, body)], chunked=stored.chunked, wait=ms / 1000.0)
        record.status = 200
        record.model, record.stream = stored.model, stored.stream
        record.path, record.served_by = "fast", "response_cache"
        record.waited_ms = round(ms, 3)
        record.usage_sent = "zero" if part.name == "openrouter" else "replayed"
        facts: dict[str, Any] = {"gateway": part.name, "age": age, "semantic": semantic, **stored.usage}
        record.mechanisms["response_cache"] = Mechanism("hit", facts=facts)
        return answer


# What a client has to send to get to the cache, where it has to: a header, and what it must hold.
_WISHES = {
    "helicone": (b"helicone-cache-enabled", b"true"),
    "openrouter": (b"x-openrouter-cache", b"true"),
    "portkey": (b"x-portkey-config", b"cache"),
}


def _asked(name: str, headers: dict[bytes, bytes]) -> bool:
    """Return whether this request asks for the cache, where the client has to."""
    if name == "cloudflare":
        return headers.get(b"cf-aig-skip-cache") != b"true"
    header, wanted = _WISHES.get(name, (b"", b""))
    return wanted in headers.get(header, b"")


def _hit_headers(
    part: Gateway, draw: Draw, stored: _Stored, record: Record, age: int, semantic: bool
) -> Headers:
    left = b"%d" % max(0, int(part.ttl) - age)
    old, own_id = b"%d" % age, _id(record)
    edge = b"Edge; hit; ttl=" + left
    return {
        "cloudflare": [
            (b"cf-aig-cache-status", b"HIT"), (b"cf-aig-log-id", own_id), (b"cf-cache-status", b"DYNAMIC"),
        ],
        "helicone": [
            (b"helicone-cache", b"HIT"), (b"helicone-cache-bucket-idx", b"0"), (b"helicone-id", own_id),
        ],
        "portkey": [
            (b"x-portkey-cache-status", b"SEMANTIC HIT" if semantic else b"HIT"),
            (b"x-portkey-trace-id", own_id),
        ],
        "litellm": [
            *_litellm(record), (b"x-litellm-cache-key", own_id), (b"x-litellm-response-cost", b"0.00042"),
        ],
        "kong": [(b"x-cache-status", b"Hit"), (b"x-cache-key", own_id), (b"age", old)],
        "openrouter": [
            (b"x-openrouter-cache-status", b"HIT"), (b"x-openrouter-cache-age", old),
            (b"x-openrouter-cache-ttl", left), (b"x-openrouter-cache-source-id", stored.source.encode()),
            (b"x-generation-id", own_id),
        ],
        "fastly": [(b"x-cache", draw.pick("fastly", (b"HIT", b"MISS, HIT", b"HIT, HIT"))), (b"age", old)],
        "rfc9211": [
            (b"cache-status", draw.pick("rfc", (edge, b"Origin; fwd=uri-miss; stored, " + edge))),
        ],
    }.get(part.name, [(OWN_HEADER, b"HIT")])  # fmt: skip


# Headers by which a gateway names its cache's state, and its words where it was not a hit (D).
_STATUS = {
    "cloudflare": (b"cf-aig-cache-status", {"miss": b"MISS"}),
    "helicone": (b"helicone-cache", {"miss": b"MISS"}),
    "openrouter": (b"x-openrouter-cache-status", {"miss": b"MISS"}),
    "portkey": (b"x-portkey-cache-status", {"miss": b"MISS", "refresh": b"REFRESH", "bypass": b"DISABLED"}),
    "litellm": (b"", {}),
    "kong": (b"x-cache-status", {"miss": b"Miss", "refresh": b"Refresh", "bypass": b"Bypass"}),
    "fastly": (b"x-cache", dict.fromkeys(("miss", "refresh", "bypass"), b"MISS")),
    "rfc9211": (b"cache-status", {
        "miss": b"Edge; fwd=uri-miss; stored", "refresh": b"Edge; fwd=request; stored",
        "bypass": b"Edge; fwd=bypass",
    }),
    "own": (OWN_HEADER, {"miss": b"MISS", "refresh": b"BYPASS", "bypass": b"BYPASS"}),
}  # fmt: skip


def _miss_headers(
    part: Gateway, draw: Draw, state: str, asked: bool, told_before: bool, record: Record
) -> tuple[Headers, Mechanism | None]:
    """Return headers of an answer that the provider gave, and what a client can conclude from them."""
    name = part.name
    fell_back = name in ("cloudflare", "litellm") and draw.chance("gateway.fallback", part.fallback_rate)
    retried = name in ("portkey", "litellm") and draw.chance("gateway.retry", part.retry_rate)
    header, words = _STATUS[name]
    out = [(header, words[state])] if state in words else []
    out += {
        "cloudflare": [(b"cf-aig-step", b"%d" % fell_back), (b"cf-cache-status", b"DYNAMIC")],
        "helicone": [(b"helicone-id", _id(record))],
        "openrouter": [(b"x-generation-id", _id(record))],
        "portkey": [
            (b"x-portkey-trace-id", _id(record)),
            (b"x-portkey-retry-attempt-count", b"2" if retried else b"0"),
        ],
        "litellm": [
            *_litellm(record),
            (b"x-litellm-attempted-retries", b"%d" % retried),
            (b"x-litellm-attempted-fallbacks", b"%d" % fell_back),
        ],
    }.get(name, [])
    if fell_back or retried:
        also = {"also": "gateway_retry"} if fell_back and retried else {}
        reason = "gateway_fallback" if fell_back else "gateway_retry"
        return out, Mechanism("fallback", reason, facts=also)
    return out, _concluded(name, state, asked, told_before)


def _concluded(name: str, state: str, asked: bool, told_before: bool) -> Mechanism | None:
    """Return the verdict on an answer from the provider, and whether the client can see it."""
    verdict = Mechanism("miss" if state == "miss" else "bypass")
    if name in ("cloudflare", "helicone", "openrouter") and state != "miss":
        verdict.visible = False
        return verdict if asked else None
    if name == "portkey" and state == "bypass":
        return None
    if name == "kong" and state == "refresh":
        return Mechanism("miss")  # found, and not used
    if name == "litellm":
        verdict.visible = False  # only the presence of a key shows it
    elif name == "fastly":  # a pass reads the same, and so does a cache that is off
        verdict.visible = state == "miss" and told_before
    elif name == "rfc9211":
        verdict.visible = state != "bypass"
    return verdict


def _id(record: Record) -> bytes:
    return b"sim-%012x" % record.ordinal


def _litellm(record: Record) -> Headers:
    return [
        (b"x-litellm-call-id", _id(record)),
        (b"x-litellm-version", b"1.90.0"),
        (b"x-litellm-model-id", b"deployment-1"),
    ]


def _zeroed(value: Any, within: bool) -> Any:
    """Return a value with its counters set to 0: all of them ``within`` a usage, else those of its usages."""
    if isinstance(value, dict):
        return {k: _zeroed(v, within or k == "usage") for k, v in value.items()}
    return 0 if within and isinstance(value, int) and not isinstance(value, bool) else value


def zero_usage(body: bytes, sse: bool) -> bytes:
    """Return the same body with every usage counter set to 0."""
    if not sse:
        return encode(_zeroed(msgspec.json.decode(body), within=False))
    return b"\n".join(
        b"data: " + zero_usage(line[6:], sse=False)
        if line.startswith(b"data: {") and b'"usage"' in line
        else line
        for line in body.split(b"\n")
    )
