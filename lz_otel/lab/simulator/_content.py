"""What the simulated model answers, and what it remembers of requests for that."""

from __future__ import annotations

import re
from collections import deque
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lz_otel._ground.memory import BoundedMap
from lz_otel.lab.simulator._tokens import messages_of, tokens_of

if TYPE_CHECKING:
    from lz_otel.lab.simulator._context import Context

_WORDS = [
    "the", "of", "and", "a", "to", "in", "is", "that", "it", "for", "on", "with", "as", "are", "this",
    "be", "at", "or", "from", "an", "by", "we", "can", "each", "when", "which", "will", "queue", "cache",
    "token", "route", "layer", "signal", "record", "window", "budget", "client", "server", "answer",
    "prompt", "model", "region", "shard", "quickly", "safely", "early", "often", "first", "next", "later",
    "again", "steady", "clear", "short", "plain", "exact", "quiet", "ready", "open", "closed", "reads",
    "writes", "waits", "sends", "keeps", "drops", "holds", "meets", "turns", "finds", "gives", "takes",
    "shows", "means", "needs", "helps",
]  # fmt: skip
_BASE = " ".join(Random(7).choices(_WORDS, k=12_000))
_SPAN = len(_BASE) - 40_000
_CATEGORIES = ("network", "hardware", "billing", "account", "delivery", "returns")
_PRIORITIES = ("low", "medium", "high")
_ENTITY = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+|\b1[3-9]\d{9}\b|\b[A-Z]{2,4}-\d{5,}\b")
_VOLATILE = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+|\d+")


class Content(NamedTuple):
    """One answer.

    Attributes:
        text: what is answered.
        tool: name and input of a tool call, or ``None``.
        thinking: reasoning text, or empty.
        tokens: all output tokens, those of thinking included.
        thinking_tokens: those of thinking.
        stop: stop reason in Anthropic's words.
    """

    text: str
    tool: tuple[str, dict[str, Any]] | None
    thinking: str
    tokens: int
    thinking_tokens: int
    stop: str


def words(offset: float, tokens: int) -> str:
    """Return a text of so many tokens; the same offset gives the same text."""
    start = int(offset * _SPAN)
    return _BASE[start : start + min(4 * tokens, 40_000)]


class Memory:
    """What the provider recalls of earlier requests: outputs to repeat, entities to leak. Bounded."""

    def __init__(self) -> None:
        self._outputs: BoundedMap[tuple[bytes, str], float] = BoundedMap(20_000)
        self._told: BoundedMap[tuple[bytes, str], bytes] = BoundedMap(20_000)
        self._entities: deque[tuple[str, ...]] = deque(maxlen=128)
        self._templates: deque[bytes] = deque(maxlen=100)

    def reset(self) -> None:
        """Forget."""
        for remembered in (self._outputs, self._told, self._entities, self._templates):
            remembered.clear()

    def output(self, ctx: Context, fingerprint: bytes, intent: str) -> float:
        """Offset of the text that answers a request with a granted intent."""
        part = ctx.behaviour.intent
        key = (fingerprint, intent)
        before = self._outputs.get(key)
        if intent == "deterministic":
            again = not ctx.draw.chance("intent.inconsistent", part.inconsistent_rate)
        elif intent == "creative":
            again = ctx.draw.chance("intent.repeat", part.creative_repeat_rate)
        else:
            again = ctx.draw.chance("intent.repeat", 0.5)
        offset = before if before is not None and again else ctx.draw.unit("output.offset")
        self._outputs.put(key, offset)
        return offset

    def repeat(self, request: bytes, intent: str, output: str) -> str:
        """Return how an answer compares with the last to this request: ``first``, ``same``, ``different``.

        ``request`` is its digest; the intent counts whether it was granted or not.
        """
        now = blake2b(output.encode(), digest_size=8).digest()
        before = self._told.put((request, intent), now)
        return "first" if before is None else "same" if before == now else "different"

    def leak(self, ctx: Context, text: str, active: int) -> str:
        """Return an entity of another recent request that this one does not hold, or nothing.

        The last ones are left out, five and as many as there are requests ``active``: a client so
        busy may not have read their answers yet, and cannot know of them.
        """
        if not ctx.draw.chance("scheduling.ghost", ctx.behaviour.scheduling.ghost_rate):
            return ""
        foreign = [e for es in list(self._entities)[: -max(5, active)] for e in es if e not in text]
        return ctx.draw.pick("scheduling.entity", foreign) if foreign else ""

    def learn(self, text: str) -> None:
        """Keep the entities of a request that has been answered."""
        mine = tuple(_ENTITY.findall(text))
        if mine:
            self._entities.append(mine)

    def similar(self, text: str) -> bool:
        """Return whether one of the last 100 prompts was the same but for numbers and addresses."""
        template = blake2b(_VOLATILE.sub("#", text).encode(), digest_size=8).digest()
        known = template in self._templates
        self._templates.append(template)
        return known


def last_user_text(body: dict[str, Any]) -> str:
    """Return the text of the last message of the user, empty when it has none."""
    for message in reversed(messages_of(body)):
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, (str, list)):
                return joined_text(content)
    return ""


def joined_text(content: object) -> str:
    """Return the text of a system prompt or of a message's content: one text, or a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _tool_of(ctx: Context) -> tuple[str, dict[str, Any]] | None:
    tools = ctx.body.get("tools")
    if not isinstance(tools, list) or not tools:
        return None
    choice = ctx.body.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if kind == "none":
        return None
    last = (messages_of(ctx.body) or [None])[-1]
    if isinstance(last, dict):
        content = last.get("content")
        parts = [last, *(content if isinstance(content, list) else ())]
        kinds = {part.get("type") for part in parts if isinstance(part, dict)}
        if last.get("role") == "tool" or kinds & {"function_call_output", "tool_result"}:
            return None
    forced = kind in ("any", "tool", "required", "function") or ctx.force.get("tool") == "1"
    if not forced and not ctx.draw.chance("tool", ctx.behaviour.answers.tool_use_rate):
        return None
    tool = tools[0] if isinstance(tools[0], dict) else {}
    inner = tool.get("function")
    if isinstance(inner, dict):
        tool = inner
    schema = tool.get("input_schema") or tool.get("parameters") or {}
    properties = schema.get("properties") if isinstance(schema, dict) else None
    names = list(properties)[:6] if isinstance(properties, dict) else ["query"]
    given = {name: words(ctx.draw.unit(f"tool.{name}"), 3) for name in names}
    return str(tool.get("name", "tool")), given


def _structured(unit: float, valid: bool) -> str:
    number = int(unit * 1_000_000)
    category, priority = _CATEGORIES[number % 6], _PRIORITIES[number // 6 % 3]
    if not valid:  # the engine's known failure (A): quotes of the wrong kind, True with a capital letter
        return f"{{'category': '{category}', 'priority': '{priority}', 'urgent': True}}"
    return f'{{"category": "{category}", "priority": "{priority}", "confidence": {number % 100 / 100}}}'


def compose(
    ctx: Context,
    memory: Memory,
    fingerprint: bytes,
    prompt: str,
    max_tokens: int | None,
    intent: str = "",
    symbolic: bool = False,
) -> Content:
    """Answer a request.

    Args:
        fingerprint: digest of what the answer depends on.
        prompt: text of the last user message.
        intent: granted sampling intent, or empty.
        symbolic: whether a symbolic engine answers, which gives the same output for the same input.
    """
    answers = ctx.behaviour.answers
    wanted = int(ctx.force.get("output", 0)) or int(ctx.draw.band("output.tokens", answers.output_tokens))
    tool = _tool_of(ctx)
    if "output_schema" in prompt:
        unit = int.from_bytes(fingerprint[:4], "big") / 2**32
        valid = not (
            symbolic and ctx.draw.chance("symbolic.invalid", ctx.behaviour.symbolic.invalid_output_rate)
        )
        if not valid:
            ctx.record.mechanisms["symbolic"].facts["schema_invalid"] = True
        text, tool = _structured(unit, valid), None
    elif intent:
        offset = memory.output(ctx, fingerprint, intent)
        text, tool = words(offset, int(answers.output_tokens.low + offset * 40)), None
    elif symbolic:
        text, tool = words(int.from_bytes(fingerprint[:4], "big") / 2**32, wanted), None
    else:
        text = words(ctx.draw.unit("output.offset"), wanted)
    thinking, thinking_tokens = ("", 0) if symbolic else _thinking(ctx)
    stop = "tool_use" if tool else "end_turn"
    tokens = tokens_of(text.encode()) + (tokens_of(msgspec.json.encode(tool[1])) if tool else 0)
    if max_tokens is not None and tokens + thinking_tokens > max_tokens:
        thinking_tokens = min(thinking_tokens, max_tokens)
        tokens = max(0, max_tokens - thinking_tokens)
        text, tool, stop = text[: 4 * tokens], None, "max_tokens"
    return Content(text, tool, thinking, tokens + thinking_tokens, thinking_tokens, stop)


def _thinking(ctx: Context) -> tuple[str, int]:
    """Return the text of thinking and its tokens, where thinking is asked for."""
    wish = ctx.body.get("thinking")
    if not isinstance(wish, dict) or wish.get("type") not in ("enabled", "adaptive"):
        return "", 0
    tokens = int(ctx.draw.band("thinking", ctx.behaviour.answers.thinking_tokens))
    return words(ctx.draw.unit("thinking.offset"), tokens), tokens
