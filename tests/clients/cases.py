"""Calls by the clients that people use, as their documentation shows them.

Each function takes the address of the server; its name says the kind: ``plain``, ``stream`` or ``retry``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = (11, 7, 4)
NOT_CACHED = (11, 7, 0)
HI: Any = [{"role": "user", "content": "Hi"}]
USAGE: Any = {"stream_options": {"include_usage": True}}


class Case(NamedTuple):
    """One way to call.

    Attributes:
        client: what people install.
        how: the interface, in words.
        kind: ``plain``, ``stream``, or ``retry``: one call of two attempts.
        run: makes the call at an address; may be a coroutine function.
        tokens: in, out, and of those in the cached ones.
    """

    client: str
    how: str
    kind: str
    run: Callable[[str], Any]
    tokens: tuple[int, int, int]

    @property
    def id(self) -> str:
        """Return its name in a test."""
        return f"{self.client}, {self.how}, {self.kind}"


CASES: list[Case] = []


def case(client: str, how: str, kind: str = "plain", tokens: tuple[int, int, int] = ALL) -> Any:
    """Add a function to the table."""

    def add(run: Callable[[str], Any]) -> Callable[[str], Any]:
        CASES.append(Case(client, how, kind, run, tokens))
        return run

    return add


# --- anthropic, openai -----------------------------------------------------------------------------


@case("anthropic", "sync")
def _(url: str) -> None:
    import anthropic

    anthropic.Anthropic(api_key="k", base_url=url).messages.create(
        model="claude-haiku-4-5", max_tokens=9, messages=HI
    )


@case("anthropic", "sync", "retry")
def _(url: str) -> None:
    import anthropic

    anthropic.Anthropic(api_key="k", base_url=url).messages.create(
        model="claude-busy", max_tokens=9, messages=HI
    )


@case("anthropic", "async", "stream")
async def _(url: str) -> None:
    import anthropic

    async with (
        anthropic.AsyncAnthropic(api_key="k", base_url=url) as client,
        client.messages.stream(model="claude-haiku-4-5", max_tokens=9, messages=HI) as stream,
    ):
        async for _event in stream:
            pass


@case("anthropic", "async over aiohttp", "stream")
async def _(url: str) -> None:
    import anthropic

    http: Any = anthropic.DefaultAioHttpClient()
    async with anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=http) as client:
        ask: Any = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": HI, "stream": True}
        async for _event in await client.messages.create(**ask):
            pass


@case("openai", "chat")
def _(url: str) -> None:
    import openai

    openai.OpenAI(api_key="k", base_url=f"{url}/v1").chat.completions.create(model="gpt-5", messages=HI)


@case("openai", "chat", "stream")
def _(url: str) -> None:
    import openai

    client = openai.OpenAI(api_key="k", base_url=f"{url}/v1")
    for _event in client.chat.completions.create(model="gpt-5", messages=HI, stream=True, **USAGE):
        pass


@case("openai", "chat", "retry")
def _(url: str) -> None:
    import openai

    openai.OpenAI(api_key="k", base_url=f"{url}/v1").chat.completions.create(model="gpt-busy", messages=HI)


@case("openai", "responses", "stream")
def _(url: str) -> None:
    import openai

    client = openai.OpenAI(api_key="k", base_url=f"{url}/v1")
    for _event in client.responses.create(model="gpt-5", input="Hi", stream=True):
        pass


@case("openai", "embeddings", tokens=(11, 0, 0))
def _(url: str) -> None:
    import openai

    openai.OpenAI(api_key="k", base_url=f"{url}/v1").embeddings.create(model="text-embedding-3", input="x")


@case("openai", "async over aiohttp", "stream")
async def _(url: str) -> None:
    import openai

    http: Any = openai.DefaultAioHttpClient()
    async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", http_client=http) as client:
        ask: Any = {"model": "gpt-5", "messages": HI, "stream": True, **USAGE}
        async for _event in await client.chat.completions.create(**ask):
            pass


# --- SDKs generated like them ----------------------------------------------------------------------


@case("groq", "sync")
def _(url: str) -> None:
    import groq

    groq.Groq(api_key="k", base_url=url).chat.completions.create(model="llama-3.3-70b", messages=HI)


@case("groq", "sync", "retry")
def _(url: str) -> None:
    import groq

    groq.Groq(api_key="k", base_url=url).chat.completions.create(model="llama-busy", messages=HI)


@case("groq", "async", "stream")
async def _(url: str) -> None:
    import groq

    async with groq.AsyncGroq(api_key="k", base_url=url) as client:
        async for _event in await client.chat.completions.create(model="llama", messages=HI, stream=True):
            pass


@case("together", "sync", "retry")
def _(url: str) -> None:
    import together

    client: Any = together.Together(api_key="k", base_url=f"{url}/v1")
    client.chat.completions.create(model="m/busy", messages=HI)


@case("together", "sync", "stream")
def _(url: str) -> None:
    import together

    client: Any = together.Together(api_key="k", base_url=f"{url}/v1")
    for _event in client.chat.completions.create(model="m/x", messages=HI, stream=True):
        pass


# --- google-genai ----------------------------------------------------------------------------------


def _gemini(url: str, **options: Any) -> Any:
    from google import genai
    from google.genai import types

    return genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, **options))


@case("google-genai", "sync")
def _(url: str) -> None:
    client = _gemini(url)
    client.models.generate_content(model="gemini-2.5-flash", contents="Hi")


@case("google-genai", "sync", "stream")
def _(url: str) -> None:
    client = _gemini(url)
    for _event in client.models.generate_content_stream(model="gemini-2.5-flash", contents="Hi"):
        pass


def _gemini_retrying(url: str) -> Any:
    from google.genai import types

    return _gemini(url, retry_options=types.HttpRetryOptions(attempts=3, initial_delay=0.01))


@case("google-genai", "sync", "retry")
def _(url: str) -> None:
    client = _gemini_retrying(url)
    client.models.generate_content(model="gemini-busy", contents="Hi")


@case("google-genai", "async, over aiohttp", "stream")
async def _(url: str) -> None:
    client = _gemini(url)
    async for _event in await client.aio.models.generate_content_stream(
        model="gemini-2.5-flash", contents="Hi"
    ):
        pass


@case("google-genai", "async, over aiohttp", "retry")
async def _(url: str) -> None:
    client = _gemini_retrying(url)
    await client.aio.models.generate_content(model="gemini-busy", contents="Hi")


# --- boto3 -----------------------------------------------------------------------------------------

CLAUDE = "anthropic.claude-haiku-4-5"
HI_AWS: Any = [{"role": "user", "content": [{"text": "Hi"}]}]
BODY = json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": HI})


def _bedrock(url: str) -> Any:
    import boto3

    return boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )


@case("boto3", "converse")
def _(url: str) -> None:
    _bedrock(url).converse(modelId=CLAUDE, messages=HI_AWS)


@case("boto3", "converse_stream", "stream")
def _(url: str) -> None:
    for _event in _bedrock(url).converse_stream(modelId=CLAUDE, messages=HI_AWS)["stream"]:
        pass


@case("boto3", "invoke_model")
def _(url: str) -> None:
    _bedrock(url).invoke_model(modelId=CLAUDE, body=BODY)["body"].read()


@case("boto3", "invoke_model_with_response_stream", "stream")
def _(url: str) -> None:
    for _event in _bedrock(url).invoke_model_with_response_stream(modelId=CLAUDE, body=BODY)["body"]:
        pass


@case("boto3", "converse", "retry")
def _(url: str) -> None:
    _bedrock(url).converse(modelId="anthropic.busy", messages=HI_AWS)


# --- others ----------------------------------------------------------------------------------------


@case("cohere", "sync", tokens=NOT_CACHED)
def _(url: str) -> None:
    import cohere

    cohere.ClientV2(api_key="k", base_url=url).chat(model="command-r", messages=HI)


@case("cohere", "sync", "stream", NOT_CACHED)
def _(url: str) -> None:
    import cohere

    for _event in cohere.ClientV2(api_key="k", base_url=url).chat_stream(model="command-r", messages=HI):
        pass


@case("cohere", "sync", "retry", NOT_CACHED)
def _(url: str) -> None:
    import cohere

    cohere.ClientV2(api_key="k", base_url=url).chat(model="command-busy", messages=HI)


@case("cohere", "async", tokens=NOT_CACHED)
async def _(url: str) -> None:
    import cohere

    client = cohere.AsyncClientV2(api_key="k", base_url=url)
    await client.chat(model="command-r", messages=HI)


def _mistral(url: str) -> Any:
    from mistralai.client import Mistral
    from mistralai.client.utils import BackoffStrategy, RetryConfig

    retries = RetryConfig("backoff", BackoffStrategy(1, 10, 1.1, 5000), True)
    return Mistral(api_key="k", server_url=url, retry_config=retries)


@case("mistralai", "sync")
def _(url: str) -> None:
    _mistral(url).chat.complete(model="mistral-large", messages=HI)


@case("mistralai", "sync", "stream")
def _(url: str) -> None:
    with _mistral(url).chat.stream(model="mistral-large", messages=HI) as stream:
        for _event in stream:
            pass


@case("mistralai", "async", "retry")
async def _(url: str) -> None:
    await _mistral(url).chat.complete_async(model="mistral-busy", messages=HI)


@case("ollama", "sync", tokens=NOT_CACHED)
def _(url: str) -> None:
    import ollama

    ollama.Client(host=url).chat(model="llama3", messages=HI)


@case("ollama", "async", "stream", NOT_CACHED)
async def _(url: str) -> None:
    import ollama

    async for _event in await ollama.AsyncClient(host=url).chat(model="llama3", messages=HI, stream=True):
        pass


@case("huggingface_hub", "InferenceClient")
def _(url: str) -> None:
    import huggingface_hub

    client = huggingface_hub.InferenceClient(base_url=url, api_key="k")
    client.chat.completions.create(model="m", messages=HI)


@case("huggingface_hub", "InferenceClient", "stream")
def _(url: str) -> None:
    import huggingface_hub

    client = huggingface_hub.InferenceClient(base_url=url, api_key="k")
    for _event in client.chat.completions.create(model="m", messages=HI, stream=True):
        pass


# --- HTTP libraries by themselves ------------------------------------------------------------------

CHAT: Any = {"model": "gpt-5", "messages": HI}


@case("requests", "post")
def _(url: str) -> None:
    import requests

    requests.post(f"{url}/v1/chat/completions", json=CHAT, timeout=9).json()


@case("requests", "post", "stream")
def _(url: str) -> None:
    import requests

    ask = {**CHAT, "stream": True}
    with requests.post(f"{url}/v1/chat/completions", json=ask, stream=True, timeout=9) as answer:
        for _line in answer.iter_lines():
            pass


@case("aiohttp", "post")
async def _(url: str) -> None:
    import aiohttp

    async with aiohttp.ClientSession() as http, http.post(f"{url}/v1/chat/completions", json=CHAT) as answer:
        await answer.json()


@case("aiohttp", "post", "stream")
async def _(url: str) -> None:
    import aiohttp

    ask = {**CHAT, "stream": True}
    async with aiohttp.ClientSession() as http, http.post(f"{url}/v1/chat/completions", json=ask) as answer:
        async for _line in answer.content:
            pass


# --- litellm ---------------------------------------------------------------------------------------


def _litellm() -> Any:
    import litellm

    litellm.suppress_debug_info = True
    return litellm


@case("litellm", "completion, OpenAI")
def _(url: str) -> None:
    _litellm().completion(model="openai/gpt-5", messages=HI, api_base=f"{url}/v1", api_key="k")


@case("litellm", "completion, OpenAI", "retry")
def _(url: str) -> None:
    _litellm().completion(
        model="openai/gpt-busy", messages=HI, api_base=f"{url}/v1", api_key="k", num_retries=2
    )


@case("litellm", "completion, Anthropic", "stream")
def _(url: str) -> None:
    answer = _litellm().completion(
        model="anthropic/claude-haiku-4-5", messages=HI, api_base=url, api_key="k", stream=True
    )
    for _event in answer:
        pass


@case("litellm", "acompletion, Anthropic, over aiohttp")
async def _(url: str) -> None:
    await _litellm().acompletion(model="anthropic/claude-haiku-4-5", messages=HI, api_base=url, api_key="k")


@case("litellm", "acompletion, Anthropic, over aiohttp", "stream")
async def _(url: str) -> None:
    answer = await _litellm().acompletion(
        model="anthropic/claude-haiku-4-5", messages=HI, api_base=url, api_key="k", stream=True
    )
    async for _event in answer:
        pass


@case("litellm", "completion, Bedrock")
def _(url: str) -> None:
    _litellm().completion(
        model=f"bedrock/converse/{CLAUDE}",
        messages=HI,
        aws_bedrock_runtime_endpoint=url,
        aws_region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
