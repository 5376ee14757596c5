"""TOML onto structs: what fits is decoded; the rest is refused by file, key, value and what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import pytest

from lz_otel._ground.toml import convert, load
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Duration = Annotated[str, msgspec.Meta(pattern=r"^\d+s$", extra={"allowed": "a duration such as 15s"})]


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of a list."""

    name: str
    share: Share = 1.0
    least: float = 0.0
    most: float = 1.0

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise ConfigurationError("least", self.least, f"at most {self.most:g}")


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file."""

    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    api: Literal["chat", "messages"] = "chat"
    names: tuple[str, ...] = ()
    band: tuple[float, float] = (0.0, 1.0)
    windows: dict[str, Duration] = {}
    weights: dict[Literal["a", "b"], float] = {}
    limit: Share | None = None
    on: bool = False
    route: tuple[Route, ...] = ()


def test_text_and_file_give_the_same_struct(tmp_path: Path) -> None:
    """A text and a file of the same TOML decode alike, and keys that are left out keep their defaults."""
    text = 'count = 3\nband = [1, 2]\n[[route]]\nname = "a"\nshare = 1\n'
    path = tmp_path / "a.toml"
    path.write_text(text)
    expected = Scenario(count=3, band=(1.0, 2.0), route=(Route("a"),))
    assert expected == load(text, Scenario) == load(path, Scenario)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count = 0", "count=0 cannot be used: expected a whole number of 1 or more"),
        ("count = 1.5", "count=1.5 cannot be used: expected a whole number of 1 or more"),
        ("count = true", "count=True cannot be used"),
        ('api = "rest"', "api='rest' cannot be used: expected one of 'chat', 'messages'"),
        ('names = "a"', "names='a' cannot be used: expected a list of strings"),
        ('names = ["a", 1]', "names[1]=1 cannot be used: expected a string"),
        ("band = [1]", "band=[1] cannot be used: expected a list of 2 numbers"),
        ('windows."5m" = "soon"', "windows.5m='soon' cannot be used: expected a duration such as 15s"),
        ("windows = 1", "windows=1 cannot be used: expected a table of strings"),
        ("weights.c = 1", "weights.c=1 cannot be used: expected one of the keys a, b"),
        ("limit = 2", "limit=2 cannot be used: expected a number from 0 to 1"),
        ("on = 1", "on=1 cannot be used: expected true or false"),
        ("colour = 1", "colour=1 cannot be used: expected one of the keys count, api, names"),
        ("route = 1", "route=1 cannot be used: expected a list of tables"),
        ("[[route]]\nshare = nan\nname = 'a'", "route[0].share=nan cannot be used: expected a number from"),
        ("[[route]]\nshare = 1", "route[0].name=None cannot be used: expected a string, and it must"),
        ("[[route]]\nname = 'a'\nx = 1", "route[0].x=1 cannot be used: expected one of the keys name, share"),
        ("[[route]]\nname = 'a'\nleast = 2", "route[0].least=2.0 cannot be used: expected at most 1"),
    ],
)  # fmt: skip
def test_errors_say_key_value_and_what_is_allowed(text: str, expected: str) -> None:
    """A refused value is named by its dotted key, with what the type allows."""
    with pytest.raises(ConfigurationError) as caught:
        load(text, Scenario)
    assert expected in str(caught.value)


def test_errors_name_setting_and_file(tmp_path: Path) -> None:
    """The error of a file begins with the setting that named it, and the file."""
    path = tmp_path / "a.toml"
    path.write_text("count = 0")
    with pytest.raises(ConfigurationError) as caught:
        load(path, Scenario, name="--config")
    assert str(caught.value).startswith(f"--config ({path}) count=0 cannot be used")
    with pytest.raises(ConfigurationError) as caught:
        load(path, Scenario)
    assert str(caught.value).startswith(f"{path} count=0 cannot be used")


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A missing file, broken TOML and bytes that are no text are errors of the setting."""
    broken = tmp_path / "broken.toml"
    broken.write_text("= 1")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none.toml", broken, binary):
        with pytest.raises(ConfigurationError, match="expected readable TOML") as caught:
            load(path, Scenario, name="--config")
        assert str(path) in str(caught.value)


def test_data_that_is_no_table_is_refused() -> None:
    """The top level must be a table."""
    with pytest.raises(ConfigurationError, match="expected a table"):
        convert([], Scenario)
