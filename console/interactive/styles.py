"""Colours of the terminal: names of the sixteen ANSI colours, which every scheme makes readable on its own
background.
"""

from __future__ import annotations

from typing import Final

from prompt_toolkit.styles import BaseStyle, Style

_COMMON: Final = {
    "bottom-toolbar": "noreverse",
    "completion-menu.completion.current": "reverse",
    "completion-menu": "noinherit",
    "completion-menu.meta.completion": "noinherit",
    "completion-menu.meta.completion.current": "reverse",
    "matching-bracket.cursor": "bold underline",
    "matching-bracket.other": "bold underline",
    "bar.parameter": "bold underline",
    "bar.name": "bold",
    "prompt": "bold",
}
_NAMES: Final = {
    "pygments.keyword": "{keyword}",
    "pygments.keyword.constant": "{constant}",
    "pygments.literal.string": "{string}",
    "pygments.literal.number": "{constant}",
    "pygments.comment": "{quiet}",
    "pygments.name.builtin": "{builtin}",
    "pygments.error": "{error}",
    "auto-suggestion": "{quiet}",
    "bar.help": "{help}",
    "bar.progress": "{progress}",
    "prompt.remote": "{remote}",
    "error": "{error}",
    "hint": "{quiet}",
}
_PALETTES: Final = {
    "default": {
        "keyword": "bold", "constant": "ansicyan", "string": "ansigreen", "quiet": "ansibrightblack",
        "builtin": "ansimagenta", "error": "ansired", "help": "", "progress": "ansicyan", "remote": "ansimagenta",
    },
    "dark": {
        "keyword": "ansibrightblue bold", "constant": "ansibrightcyan", "string": "ansibrightgreen",
        "quiet": "ansibrightblack", "builtin": "ansibrightmagenta", "error": "ansibrightred",
        "help": "ansiwhite", "progress": "ansibrightcyan", "remote": "ansibrightyellow",
    },
    "light": {
        "keyword": "ansiblue bold", "constant": "ansicyan", "string": "ansigreen", "quiet": "ansibrightblack",
        "builtin": "ansimagenta", "error": "ansired", "help": "ansiblack",
        "progress": "ansiblue", "remote": "ansimagenta",
    },
    "mono": {
        "keyword": "bold", "constant": "", "string": "", "quiet": "italic", "builtin": "", "error": "bold", "help": "",
        "progress": "", "remote": "underline",
    },
}  # fmt: skip
_ESCAPES: Final = {
    "ansired": "31", "ansibrightred": "91", "bold": "1", "ansibrightblack": "90", "italic": "3",
}  # fmt: skip


def style_of(name: str) -> BaseStyle:
    """Return prompt-toolkit's style with this name."""
    palette = _PALETTES[name]
    return Style.from_dict(_COMMON | {part: rule.format(**palette) for part, rule in _NAMES.items()})


def painted(text: str, part: str, style: str) -> str:
    """Return a text in the colour of `error` or `quiet`, line by line, for output that bypasses prompt-toolkit."""
    codes = ";".join(_ESCAPES[word] for word in _PALETTES[style][part].split() if word in _ESCAPES)
    if not codes:
        return text
    return "\n".join(f"\x1b[{codes}m{line}\x1b[0m" if line else line for line in text.split("\n"))
