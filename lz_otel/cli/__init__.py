"""The command ``lz-otel``: demo, simulator, bundle.

Exit status: 0 done, 1 a difference was found, 2 a setting or an argument cannot be used.
"""

from __future__ import annotations

import sys

from lz_otel.errors import LzOtelError, MissingDependencyError

__all__ = ["main"]


def main() -> None:
    """Entry point: errors that lz_otel raises on purpose are one line, and exit status 2."""
    try:
        try:
            from lz_otel.cli.commands import app
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in ("typer", "click", "rich"):
                raise MissingDependencyError(error.name or "typer", "cli", "the command lz-otel") from None
            raise
        app()
    except LzOtelError as error:
        sys.stderr.write(f"lz-otel: {error}\n")
        raise SystemExit(2) from None
