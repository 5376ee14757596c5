"""Label values that every receiver takes."""

from __future__ import annotations


def printable(value: str) -> str:
    """Return a label value with ``?`` for each character that cannot be printed.

    Prometheus' parser ends a line at NUL, and lone surrogates cannot be encoded: one such value
    would cost the whole scrape or push.
    """
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else "?" for c in value)


class LabelValues(dict[str, str]):
    """The printable form of each label value, worked out once: ``values[value]``.

    The catalogue closes or caps every label, so there are few of them.
    """

    def __missing__(self, value: str) -> str:
        text = self[value] = printable(value)
        return text
