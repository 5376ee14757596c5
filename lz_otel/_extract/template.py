"""A stream's events that differ in their text only: known by the bytes around it, without decoding."""

from __future__ import annotations

import re

# The inside of a JSON string that any decoder takes and that is content: no quote, no control
# character, valid UTF-8, short escapes only, and not empty (before it stands its quote).
_ASCII = rb"[ !#-\[\]-\x7f]*+"
JSON_STRING = re.compile(
    _ASCII + rb"(?:(?:\\[\\/bfnrt]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    rb"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})" + _ASCII + rb')*+(?<!")'
).fullmatch
# The ASCII part of `JSON_STRING`: text of these alone needs no pattern, which takes twice as long
PLAIN_TEXT = bytes(set(range(0x20, 0x80)) - set(b'"\\'))

_MAX_LEARNED = 8  # a stream whose events are never alike is soon left alone
_WORTH_LEARNING = 64  # events that a template must have spared for the limit to start anew


class EventTemplate:
    """The bytes before and after the text of an event that holds a piece of text and nothing else.

    Another event with the same bytes around its text is one piece of content too. For example
    ``data: {"delta":{"text":"`` and ``"}}\n\n``, learned of one event, hold for the next thousand.
    Matching is written out in `Reader.feed`, since a call for each event would cost 7 % of reading a stream.

    Attributes:
        before, behind: the bytes around the text.
        around: how many these are; -1 as long as nothing is learned, which no event matches.
    """

    __slots__ = ("_left", "_matched", "around", "before", "behind")

    def __init__(self) -> None:
        self.before = self.behind = b""
        self.around = -1
        self._left = _MAX_LEARNED
        self._matched = 0

    def learn(self, data: bytes, text: str, matched: int) -> None:
        """Take over the bytes around ``text`` in an event, if it stands there once and unescaped.

        Args:
            data: the event.
            text: what it says, and all that it says.
            matched: events of this stream that have matched so far.
        """
        if not self._left:
            return
        self._left = _MAX_LEARNED if matched - self._matched > _WORTH_LEARNING else self._left - 1
        self._matched = matched
        quoted = b'"%b"' % text.encode("utf-8", "surrogatepass")
        at = data.find(quoted)
        if at >= 0 and data.find(quoted, at + 1) < 0:
            end = at + len(quoted) - 1
            if JSON_STRING(data, at + 1, end):
                self.before, self.behind = data[: at + 1], data[end:]
                self.around = len(self.before) + len(self.behind)


NO_TEMPLATE = EventTemplate()
"""Matches nothing."""
