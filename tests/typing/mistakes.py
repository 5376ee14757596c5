"""Mistakes that a type checker has to see; it is never run. Each line names the code of its error."""

from __future__ import annotations

import lz_otel
import lz_otel.testing

lz_otel.instrument(exporterz="otlp")  # error: call-arg
lz_otel.instrument(prometheus_port="no")  # error: arg-type
lz_otel.instrument(exporters=["prometeus"])  # error: list-item
lz_otel.instrument(conventions="1.40")  # error: arg-type
lz_otel.instrument(call_log="yes")  # error: arg-type
lz_otel.instrument(providers=["gateway.internal"])  # error: arg-type
with lz_otel.testing.capture(max_serie=5):  # error: call-arg
    pass
with lz_otel.testing.capture(max_series="5"):  # error: arg-type
    pass


@lz_otel.operation("sync")
def plain(text: str) -> int:
    """A function with a signature."""
    return len(text)


@lz_otel.operation("async")
async def asynchronous(text: str) -> int:
    """A coroutine function with a signature."""
    return len(text)


plain(5)  # error: arg-type
plain()  # error: call-arg
plain("x").upper()  # error: attr-defined
asynchronous("x", 1)  # error: call-arg
asynchronous("x") + 1  # error: operator
lz_otel.operation("route", sesion="s")  # error: call-arg
with lz_otel.operation("route") as op:
    print(op.rejected)  # error: attr-defined
lz_otel.record_response_cache(True)  # error: call-arg
