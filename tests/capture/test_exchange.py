"""A request of another library, as `Intake.begin` reads it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lz_otel._capture.exchange import ForeignRequest, RawHeaders
from lz_otel._ground.headers import read


def request(body: Any) -> ForeignRequest:
    return ForeignRequest("POST", "h", "/v1/x?k=v", RawHeaders({"X-A": "ü", b"x-b": b"1"}.items()), body)


@pytest.mark.parametrize(
    "body",
    [b"abc", "abc", bytearray(b"abc"), memoryview(b"abc"), io.BytesIO(b"abc")],
    ids=lambda b: type(b).__name__,
)
def test_a_body_in_memory_is_known(body: Any) -> None:
    """In each of its kinds; a file stays where it is."""
    assert b"abc" == request(body).content == request(body).content


def test_a_body_that_is_not_there_yet() -> None:
    """None is none, a generator is not begun, and of a file only the rest is sent."""
    assert b"" == request(None).content
    with pytest.raises(ValueError, match="while it is sent"):
        _ = request(iter([b"abc"])).content
    file = io.BytesIO(b"abc")
    file.read(1)
    assert b"bc" == request(file).content == file.read()


def test_the_head_reads_as_that_of_httpx() -> None:
    """Names in lower case, values by their bytes, and the parts of the URL."""
    made = request(None)
    assert {"x-a": "ü", "x-b": "1"} == dict(read(made.headers))
    assert (b"/v1/x?k=v", b"h", "h") == (made.url.raw_path, made.url.raw_host, made.url.host)
