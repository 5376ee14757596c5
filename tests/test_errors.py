"""The exceptions: one tree, and texts that say what to do."""

from __future__ import annotations

from lz_otel import errors


def test_errors_form_one_tree() -> None:
    """Whoever catches ``LzOtelError`` catches all of ours; configuration errors are value errors too."""
    raised = [getattr(errors, name) for name in errors.__all__]
    assert [] == [e for e in raised if not issubclass(e, errors.LzOtelError)]
    assert issubclass(errors.ConfigurationError, ValueError)
    assert issubclass(errors.MissingDependencyError, ImportError)


def test_errors_say_what_to_do() -> None:
    """A configuration error names setting, value and what is allowed; a missing package its command."""
    assert "A='x' cannot be used: expected a or b" == str(errors.ConfigurationError("A", "x", "a or b"))
    missing = str(errors.MissingDependencyError("typer", "cli", "the command line"))
    assert "the command line needs the package 'typer': run  pip install 'lz-otel[cli]'" == missing
    assert "no metric 'x'" == str(errors.CatalogueError("no metric 'x'"))
