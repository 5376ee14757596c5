"""Evaluate rules over the past on a server that already holds history, and write the results back.

A server evaluates its rules at this moment only, so series pushed with old time stamps have no recorded
series beside them until this has run.
"""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

from lz_otel.lab.history import _remote_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def ask(url: str, path: str, **form: object) -> Any:
    """Return the ``result`` of a query to a server's HTTP API.

    Raises:
        OSError: the server cannot be reached, or refuses the query; the text holds its answer.
    """
    address = f"{url.rstrip('/')}/api/v1/{path}"
    try:
        with urllib.request.urlopen(address, urllib.parse.urlencode(form).encode(), timeout=300) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        raise OSError(f"{form}: {error.read().decode(errors='replace')}") from error


def query_range(url: str, expr: str, start: int, end: int, step: int) -> list[dict[str, Any]]:
    """Return the series of a range query, as the HTTP API gives them.

    Raises:
        OSError: the server cannot be reached, or refuses the query.
    """
    series: list[dict[str, Any]] = ask(url, "query_range", query=expr, start=start, end=end, step=step)
    return series


def record(url: str, name: str, expr: str, labels: Mapping[str, str], start: int, end: int, step: int) -> int:
    """Evaluate one recording rule over the past; return the number of series made."""
    recorded = query_range(url, expr, start, end, step)
    series = [
        encoded({**one["metric"], **labels, "__name__": name}, numbers_of(one), step, end) for one in recorded
    ]
    _remote_write.post(url, series)
    return len(series)


def copy(url: str, series: Iterable[dict[str, Any]], shift: int, step: int) -> None:
    """Write series of a range query back, so many seconds later (or earlier)."""
    copies = []
    for one in series:
        numbers = [(at + shift, number) for at, number in numbers_of(one)]
        copies.append(encoded(one["metric"], numbers, step, numbers[-1][0]))
    _remote_write.post(url, copies)


def numbers_of(series: dict[str, Any]) -> list[tuple[int, float]]:
    """Return the samples of a series: (epoch seconds, value)."""
    return [(int(at), float(value)) for at, value in series["values"]]


def encoded(labels: Mapping[str, str], values: Iterable[tuple[int, float]], step: int, end: int) -> bytes:
    """Encode a series; a hole of more than a step ends with a staleness marker, as after an empty result."""
    samples: list[tuple[int, float]] = []
    for at, value in values:
        if samples and at - samples[-1][0] > step:
            samples.append((samples[-1][0] + step, math.nan))
        samples.append((at, value))
    if samples and samples[-1][0] + step <= end:
        samples.append((samples[-1][0] + step, math.nan))
    pairs = sorted((k, v) for k, v in labels.items() if v)
    numbers, times = [value for _, value in samples], [at * 1000 for at, _ in samples]
    return _remote_write.encode_labels(pairs) + _remote_write.encode_samples(numbers, times)
