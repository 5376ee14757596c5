"""Write the sections of docs/api.md: public names with their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any, ForwardRef

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["markdown", "module_section", "signature"]

# Users call methods of what a public function returns, though its class is not public itself:
# function -> (module, class, methods).
RETURNED = {"lz_otel.operation": ("lz_otel._operation", "Operation", ("reject", "attach"))}
WIDTH = 100
TITLES = {
    "Args": "Arguments",
    "Attributes": "Attributes",
    "Raises": "Raises",
    "Returns": "Returns",
    "Yields": "Yields",
}


class _Written:
    """An annotation as it is written in the source, without quotes around it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _written(annotation: object) -> object:
    if isinstance(annotation, ForwardRef):  # in the structs of msgspec, up to Python 3.13
        annotation = annotation.__forward_arg__
    return _Written(annotation) if isinstance(annotation, str) else annotation


def _split(parameters: str) -> Iterator[str]:
    """Split at the commas that are in no bracket and no quotes."""
    depth, quote, start = 0, "", 0
    for position, char in enumerate(parameters):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            yield parameters[start:position].strip()
            start = position + 1
    yield parameters[start:].strip()


def signature(name: str, function: Any, *, method: bool = False) -> str:
    """Return the signature of a function or class as source text, a parameter a line where it is long.

    Args:
        name: how the caller writes the function.
        function: the function, or a class for its constructor.
        method: leave out the first parameter.
    """
    stated = inspect.signature(function)
    parameters = [p.replace(annotation=_written(p.annotation)) for p in stated.parameters.values()]
    result = inspect.Signature.empty if inspect.isclass(function) else _written(stated.return_annotation)
    text = str(inspect.Signature(parameters[method:], return_annotation=result))
    if len(name + text) <= WIDTH:
        return name + text
    inside, _, after = text[1:].rpartition(")")
    return f"{name}(\n" + "".join(f"    {part},\n" for part in _split(inside)) + f"){after}"


def markdown(docstring: str) -> str:
    """Return a docstring of this project as Markdown: sections become lists, double backticks single ones."""
    out: list[str] = []
    section = ""
    for line in docstring.splitlines():
        text = line.strip()
        title = TITLES.get(text.removesuffix(":")) if text.endswith(":") and line == text else None
        if title is not None:
            section = title
            out += [f"**{title}**", ""]
        elif not section or not text:
            out.append(line)
        elif section in ("Returns", "Yields"):
            out.append(text)
        elif line.startswith(" " * 5):
            out.append(f"  {text}")
        else:
            entry, colon, meaning = text.partition(": ")
            out.append(f"- `{entry}`: {meaning}" if colon else f"- {text}")
    return re.sub(r"``([^`]+)``", r"`\1`", "\n".join(out)).strip() + "\n"


def _entry(level: str, name: str, code: str, documented: object) -> str:
    docstring = inspect.getdoc(documented)
    if not docstring:
        raise SystemExit(f"scripts/docs.py: {name} is public and has no docstring")
    return f"{level} `{name}`\n\n```py\n{code}\n```\n\n{markdown(docstring)}\n"


def _methods(name: str, cls: type, chosen: tuple[str, ...] | None = None) -> Iterator[str]:
    for attribute, value in vars(cls).items():
        if chosen is not None and attribute not in chosen:
            continue
        if attribute.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
            continue
        code = attribute if isinstance(value, property) else signature(attribute, value, method=True)
        yield _entry("####", f"{name}.{attribute}", code, value)


def _object(module: str, name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value) and issubclass(value, BaseException):
        bases = ", ".join(base.__name__ for base in value.__bases__)
        yield _entry("###", name, f"class {name}({bases})", value)
    elif inspect.isclass(value):
        yield _entry("###", name, signature(name, value), value)
        yield from _methods(name, value)
    elif callable(value):
        yield _entry("###", name, signature(name, value), value)
    else:
        yield f"### `{name}`\n\n```py\n{name} = {value!r}\n```\n\n"
    if returned := RETURNED.get(f"{module}.{name}"):
        path, class_name, chosen = returned
        cls = getattr(importlib.import_module(path), class_name)
        yield f"#### What `{name}()` returns\n\n{markdown(inspect.getdoc(cls) or '')}\n"
        yield from _methods(class_name, cls, chosen)


def module_section(module: str) -> str:
    """Return Markdown on every name in a module's ``__all__``, in its order."""
    imported = importlib.import_module(module)
    names = getattr(imported, "__all__", ())
    return "".join(text for name in names for text in _object(module, name, getattr(imported, name)))
