"""Token counts of the simulator: four bytes of text are one token (C).

No vendor's tokenizer is imitated. What matters is that the same text always counts the
same, that parts add up, and that the figures look like real ones.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

encode = msgspec.json.Encoder().encode


def tokens_of(data: bytes) -> int:
    """Return tokens of a text in UTF-8: its bytes divided by four, rounded up."""
    return (len(data) + 3) // 4


class Block(msgspec.Struct):
    """One cacheable piece of a prompt.

    Attributes:
        section: ``tools``, ``system`` or ``messages``.
        data: what a prefix must have in common, byte for byte.
        tokens: its length.
        ttl: ``5m`` or ``1h`` where the client put a breakpoint behind it, else empty.
        cacheable: whether a breakpoint may stand here.
        message: index of the message it belongs to.
    """

    section: str
    data: bytes
    tokens: int
    ttl: str = ""
    cacheable: bool = True
    message: int = -1


def digest_of(model: str, blocks: list[Block]) -> bytes:
    """Return a digest of a whole prompt and the model that is asked."""
    return blake2b(b"\x00".join([model.encode(), *(b.data for b in blocks)]), digest_size=16).digest()


def ttl_of(block: dict[str, Any]) -> str:
    """Return the lifetime that a block, or a whole request, asks for: ``5m``, ``1h``, or nothing."""
    control = block.get("cache_control")
    if not isinstance(control, dict):
        return ""
    return "1h" if control.get("ttl") == "1h" else "5m"


def _block(section: str, block: Any, role: bytes = b"", message: int = -1) -> Block:
    if not isinstance(block, dict):
        data = block.encode() if isinstance(block, str) else encode(block)
        return Block(section, role + data, tokens_of(data), message=message)
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        data = block["text"].encode()
        cacheable = bool(data)
    else:
        data = encode({k: v for k, v in block.items() if k != "cache_control"})
        cacheable = kind not in ("thinking", "redacted_thinking")
    tokens = 1500 if kind == "image" else tokens_of(data)
    return Block(section, role + data, tokens, ttl_of(block), cacheable, message)


def anthropic_blocks(request: dict[str, Any]) -> list[Block]:
    """Return blocks of a Messages request in the order in which the vendor renders them."""
    blocks = [_block("tools", tool) for tool in request.get("tools") or ()]
    system = request.get("system")
    if isinstance(system, str):
        blocks.append(_block("system", system))
    elif system:
        blocks.extend(_block("system", part) for part in system)
    for index, message in enumerate(request.get("messages") or ()):
        role = str(message.get("role", "")).encode() + b"\x00"
        content = message.get("content")
        if isinstance(content, list):
            blocks.extend(_block("messages", part, role, index) for part in content)
        else:
            blocks.append(_block("messages", content if content is not None else "", role, index))
    return blocks


def messages_of(request: dict[str, Any]) -> list[Any]:
    """Return the messages of a request of any API; a text alone is one message of the user."""
    messages = request.get("messages")
    if messages is None:
        messages = request.get("input")
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return messages or []


def openai_blocks(request: dict[str, Any]) -> list[Block]:
    """Return blocks of a Chat Completions or Responses request, tools first, in order."""
    blocks = [_block("tools", tool) for tool in request.get("tools") or ()]
    instructions = request.get("instructions")
    if isinstance(instructions, str):
        blocks.append(_block("system", instructions))
    leading = True
    for index, message in enumerate(messages_of(request)):
        if not isinstance(message, dict):
            blocks.append(_block("messages", message, b"", index))
            continue
        role = str(message.get("role") or message.get("type") or "")
        leading = leading and role in ("system", "developer")
        content = message.get("content")
        data = content.encode() if isinstance(content, str) else encode(message)
        section = "system" if leading else "messages"
        blocks.append(Block(section, role.encode() + b"\x00" + data, tokens_of(data), message=index))
    return blocks
