"""Rate-limit windows that really count down, in the header formats of both vendors (D)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lz_otel.lab.simulator.scenario import Limits

Headers = list[tuple[bytes, bytes]]


class _Bucket:
    """A budget per minute that fills up continuously."""

    __slots__ = ("at", "left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left = float(limit)
        self.at = time.time()

    def take(self, amount: float, now: float) -> None:
        self.left = min(self.limit, self.left + (now - self.at) * self.limit / 60.0)
        self.at = now
        self.left = max(0.0, self.left - amount)

    def seconds_to_full(self) -> float:
        return (self.limit - self.left) * 60.0 / self.limit


def _go_duration(seconds: float) -> bytes:
    """Return seconds in the form of Go's ``time.Duration``: ``12ms``, ``1s``, ``6m0s``."""
    ms = round(seconds * 1000)
    if ms < 1000:
        return b"%dms" % ms
    minutes, rest = divmod(ms, 60_000)
    tail = f"{rest / 1000:.3f}".rstrip("0").rstrip(".").encode() + b"s"
    return b"%dm" % minutes + tail if minutes else tail


def _rfc3339(when: float) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(when) + 1)).encode()


class RateLimits:
    """The windows of all workspaces."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, bytes], _Bucket] = {}

    def reset(self) -> None:
        """Fill all windows up again."""
        self._buckets.clear()

    def _bucket(self, workspace: str, resource: bytes, limit: int) -> _Bucket:
        bucket = self._buckets.get((workspace, resource))
        if bucket is None or bucket.limit != limit:
            if len(self._buckets) > 10_000:
                self._buckets.clear()
            bucket = self._buckets[workspace, resource] = _Bucket(limit)
        return bucket

    def exhausted(self, limits: Limits, workspace: str) -> float | None:
        """Return seconds until a request is allowed again, or ``None`` when it is allowed now."""
        if not limits.enforce:
            return None
        bucket = self._bucket(workspace, b"requests", limits.requests)
        bucket.take(0, time.time())
        if bucket.left >= 1.0:
            return None
        return (1.0 - bucket.left) * 60.0 / limits.requests

    def anthropic(self, limits: Limits, workspace: str, input_tokens: int, output_tokens: int) -> Headers:
        """Count one request and give its headers; cache reads are not counted by the caller."""
        now = time.time()
        out: Headers = []
        tightest: tuple[float, Headers] = (2.0, [])
        for name, limit, amount, step in (
            (b"requests", limits.requests, 1, 1),
            (b"input-tokens", limits.input_tokens, input_tokens, 1000),
            (b"output-tokens", limits.output_tokens, output_tokens, 1000),
        ):
            bucket = self._bucket(workspace, name, limit)
            bucket.take(amount, now)
            stated = [
                (b"limit", b"%d" % limit),
                (b"remaining", b"%d" % (int(bucket.left / step) * step)),
                (b"reset", _rfc3339(now + bucket.seconds_to_full())),
            ]
            out += [(b"anthropic-ratelimit-%s-%s" % (name, what), value) for what, value in stated]
            if step > 1 and bucket.left / limit < tightest[0]:
                tightest = bucket.left / limit, stated
        return out + [(b"anthropic-ratelimit-tokens-" + what, value) for what, value in tightest[1]]

    def openai(self, limits: Limits, workspace: str, tokens: int) -> Headers:
        """Count one request and give its headers; resets are durations, not dates."""
        now = time.time()
        out: Headers = []
        for name, limit, amount in (
            (b"requests", limits.requests, 1),
            (b"tokens", limits.input_tokens + limits.output_tokens, tokens),
        ):
            bucket = self._bucket(workspace, b"o-" + name, limit)
            bucket.take(amount, now)
            out += [
                (b"x-ratelimit-limit-" + name, b"%d" % limit),
                (b"x-ratelimit-remaining-" + name, b"%d" % int(bucket.left)),
                (b"x-ratelimit-reset-" + name, _go_duration(bucket.seconds_to_full())),
            ]
        return out
