"""What came of each client's call, and the page that shows it.

python -m tests.clients.outcome    (in .venv-clients; prints the table of docs/clients.md)
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

from lz_otel.testing import capture
from tests.clients.api import served
from tests.clients.cases import CASES

if TYPE_CHECKING:
    from tests.clients.cases import Case

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one
_USAGE = "gen_ai.client.inference.usage."
_HEAD = "| client | version | interface | one call | tokens | first token | ended well | retries |"


class Outcome(NamedTuple):
    """What was measured of one call.

    Attributes:
        calls, ended: calls, and those that ended ``ok``.
        attempts: HTTP exchanges.
        tokens: in, out, cached.
        first_token: samples of the time to the first token.
        retries: attempts beyond the first, for the reason 429.
        active, faults: calls still active, faults of ours.
    """

    calls: float
    ended: float
    attempts: float
    tokens: tuple[float, ...]
    first_token: float
    retries: float
    active: float = 0
    faults: float = 0


def outcome(case: Case, url: str) -> Outcome:
    """Make one call, and return what was measured."""
    duration = f"gen_ai.client.{'operation' if case.how == 'embeddings' else 'inference'}.duration"
    with capture() as seen:
        made = case.run(url)
        if inspect.iscoroutine(made):
            asyncio.run(made)
        del made
        gc.collect()
        return Outcome(
            seen.value(duration),
            seen.value(duration, lz_ending="ok"),
            seen.value("lz.attempts"),
            tuple(
                seen.value(_USAGE + kind)
                for kind in ("input_tokens", "output_tokens", "cache_read.input_tokens")
            ),
            seen.value("lz.call.time_to_first_token"),
            seen.value("lz.call.retries", reason="429"),
            seen.value("lz.call.active"),
            seen.value("lz.internal.errors"),
        )


def expected(case: Case) -> Outcome:
    """Return what is right."""
    again = case.kind == "retry"
    return Outcome(1, 1, 1 + again, case.tokens, case.kind == "stream", again)


def table() -> str:
    """Return the table of the page, of the versions that are installed here."""
    rows = [_HEAD, "|" + "---|" * (_HEAD.count("|") - 1)]
    with served() as url:
        for case in CASES:
            found, right = outcome(case, url), expected(case)
            said = [
                _yes(found.calls == right.calls),
                _yes(found.tokens == right.tokens),
                _yes(found.first_token == 1) if case.kind == "stream" else "",
                _yes(found.ended == right.ended),
                _yes(found.retries == 1) if case.kind == "retry" else "",
            ]
            how = f"{case.how}, {case.kind}" if case.kind == "stream" else case.how
            rows.append("| " + " | ".join([case.client, metadata.version(case.client), how, *said]) + " |")
    return "\n".join(rows) + "\n"


def _yes(right: bool) -> str:
    return "yes" if right else "**no**"


if __name__ == "__main__":
    print(table(), end="")
