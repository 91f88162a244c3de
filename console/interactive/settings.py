r"""Settings of a terminal: defaults, the user's file, `\set NAME VALUE`.

The file is `~/.config/lunabox/config.toml` (or in `$XDG_CONFIG_HOME`). The settings are in its table `[console]`:

    completion = "typing"    # while you type; "tab": on request; "off"
    suggestions = true       # show the rest of a statement from the history, in grey
    help = true              # show the signature of the function at the cursor in the bar
    editing = "emacs"        # or "vi"
    style = "default"        # or "dark", "light", "mono"; the variable NO_COLOR means "mono"
    pager = "on"             # use $PAGER or less for long output; "off", or a command
    timing = false           # show the time of each statement
    output = "yaml"          # or "lua", "table"
    rows = 1000              # rows of a table that are shown; 0: all
    width = "auto"           # width of tables: the terminal's, or a number; 0: no limit
    stack = false            # show the stack with every error; `\stack` shows the last one
    compile = false          # compile statements; then Ctrl-C cannot end their loops
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "completion": ("typing", "tab", "off"),
    "editing": ("emacs", "vi"),
    "style": ("default", "dark", "light", "mono"),
    "output": ("yaml", "lua", "table"),
}
_TRUTH: Final = {
    "on": True,
    "true": True,
    "yes": True,
    "1": True,
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}


class SettingError(ValueError):
    """A wrong name or value; the text is for users."""


@dataclass(slots=True)
class TerminalSettings:
    """The settings of one session, with the defaults listed in the module."""

    completion: str = "typing"
    suggestions: bool = True
    help: bool = True
    editing: str = "emacs"
    style: str = "default"
    pager: str = "on"
    timing: bool = False
    output: str = "yaml"
    rows: int = 1000
    width: str = "auto"
    stack: bool = False
    compile: bool = False

    def set(self, name: str, value: object) -> None:
        """Change a setting. Raises SettingError."""
        if name not in names():
            raise SettingError(f"unknown setting {name}")
        setattr(self, name, _checked(name, value, getattr(self, name)))

    def shown(self) -> str:
        """Return a line for each setting."""
        return "".join(f"{name:<12} {_spelled(getattr(self, name))}\n" for name in names())


def names() -> tuple[str, ...]:
    return tuple(field.name for field in fields(TerminalSettings))


def choices(name: str) -> tuple[str, ...]:
    """Return the values that completion offers for a setting."""
    if name in _CHOICES:
        return _CHOICES[name]
    if name == "pager" or isinstance(getattr(TerminalSettings(), name, None), bool):
        return ("on", "off")
    return ("auto", "0") if name == "width" else ()


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _checked(name: str, value: object, present: object) -> object:
    if isinstance(present, bool):
        truth = value if isinstance(value, bool) else _TRUTH.get(str(value).lower())
        if truth is None:
            raise SettingError(f"{name}: on or off expected")
        return truth
    if isinstance(present, int):
        return _number(name, value)
    text = _spelled(value)
    if name in _CHOICES and text not in _CHOICES[name]:
        raise SettingError(f"{name}: one of {', '.join(_CHOICES[name])} expected")
    if name == "width" and text != "auto":
        return str(_number(name, value))
    return text


def _number(name: str, value: object) -> int:
    text = str(value)
    # At most nine digits, so that the number fits 32 bits.
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 10):
        raise SettingError(f"{name}: a number expected")
    return int(text)


def config_path() -> Path | None:
    """Return the path of the user's file, or None without a home directory."""
    base = os.environ.get("XDG_CONFIG_HOME")
    if base:
        return Path(base) / "lunabox" / "config.toml"
    home = os.environ.get("HOME")
    return Path(home) / ".config" / "lunabox" / "config.toml" if home else None


def load(path: Path | None = None) -> tuple[TerminalSettings, list[str]]:
    """Load the user's file. Returns the settings, and a line for each problem in it."""
    settings = TerminalSettings()
    problems: list[str] = []
    path = path or config_path()
    for name, value in _table(path, problems).items():
        try:
            settings.set(name, value)
        except SettingError as error:
            problems.append(f"lunabox: {path}: {error}")
    if os.environ.get("NO_COLOR"):
        settings.style = "mono"
    return settings, problems


def _table(path: Path | None, problems: list[str]) -> Mapping[str, Any]:
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            console = tomllib.load(file).get("console", {})
    except FileNotFoundError:
        return {}
    except OSError as error:
        problems.append(f"lunabox: {path}: {error.strerror}")
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"lunabox: {path}: {error}")
        return {}
    if not isinstance(console, dict):
        problems.append(f"lunabox: {path}: console: a table expected")
        return {}
    return console
