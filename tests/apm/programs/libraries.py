"""How each APM library is switched on and off, sending nothing anywhere."""

from __future__ import annotations

import importlib
import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LIBRARIES"]

NOWHERE = "127.0.0.1:1"


def ddtrace() -> Any:
    """Datadog: wraps methods of httpx and of the SDKs' resources, and the OpenAI client's own."""
    os.environ["DD_TRACE_AGENT_URL"] = f"http://{NOWHERE}"
    os.environ["DD_INSTRUMENTATION_TELEMETRY_ENABLED"] = "false"
    os.environ["DD_REMOTE_CONFIGURATION_ENABLED"] = "false"
    logging.getLogger("ddtrace").setLevel(logging.CRITICAL)
    import ddtrace as library

    names = ("httpx", "anthropic", "openai")
    library.patch(**dict.fromkeys(names, True))

    def off() -> None:
        for name in names:
            importlib.import_module(f"ddtrace.contrib.internal.{name}.patch").unpatch()

    return off


def elastic() -> Any:
    """Elastic APM: wraps httpx."""
    import elasticapm

    elasticapm.Client(service_name="x", server_url=f"http://{NOWHERE}", disable_send=True)
    elasticapm.instrument()
    return elasticapm.uninstrument


def logfire() -> Any:
    """Pydantic Logfire: wraps the SDKs' request method on their client classes, and httpx's transports."""
    import logfire as library

    library.configure(send_to_logfire=False, console=False)
    library.instrument_httpx()
    contexts = [library.instrument_anthropic(), library.instrument_openai()]

    def off() -> None:
        from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor

        for context in contexts:
            with context:
                """Left at once: that is how it is taken off."""
        HTTPXClientInstrumentor().uninstrument()

    return off


def newrelic() -> Any:
    """New Relic: wraps what is imported after it, and stays."""
    os.environ["NEW_RELIC_DEVELOPER_MODE"] = "true"
    os.environ["NEW_RELIC_LICENSE_KEY"] = "0" * 40
    os.environ["NEW_RELIC_APP_NAME"] = "x"
    import newrelic.agent as library

    library.initialize()
    return None


def opentelemetry() -> Any:
    """OpenTelemetry and OpenLLMetry: wrap httpx's transports and the methods of the SDKs' resources."""
    from opentelemetry import trace
    from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
    from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())
    made = [HTTPXClientInstrumentor(), AnthropicInstrumentor(), OpenAIInstrumentor()]
    for one in made:
        one.instrument()

    def off() -> None:
        for one in made:
            one.uninstrument()

    return off


def sentry() -> Any:
    """Sentry: wraps httpx's clients and the methods of the SDKs' resources, and stays."""
    import sentry_sdk

    sentry_sdk.init(dsn=f"http://key@{NOWHERE}/1", traces_sample_rate=1.0, shutdown_timeout=0)
    return None


LIBRARIES: dict[str, Callable[[], Any]] = {
    one.__name__: one for one in (ddtrace, elastic, logfire, newrelic, opentelemetry, sentry)
}
