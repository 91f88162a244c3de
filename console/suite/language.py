"""Parses the inspector's commands from text to values; pure.

    create server N with script="..", rpl_master=M          stop server N with signal=KILL
    switch N            eval N "<expr>"                     push filter 'regex' to 'text'

Words are split as in a shell; `with` opens a list of `name=value` or `name value` pairs.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from console.suite.command_mistakes import mistake_of

Option = str | bool


class CommandError(Exception):
    """Raised for a command that the inspector does not understand or cannot run."""


@dataclass(frozen=True, slots=True)
class Command:
    """A parsed command: `verb` is a name of `_GRAMMAR`, `names` are its operands in the order of the text."""

    verb: str
    names: tuple[str, ...] = ()
    options: dict[str, Option] = field(default_factory=dict)


def parse(text: str) -> Command:
    """Parse a command. Raises CommandError for an unknown command or a wrong number of words."""
    words = _split(text)
    if words[1:2] == ["server"] and words[0] in _SERVER_VERBS and len(words) > 3 and words[3] != "with":
        raise CommandError(mistake_of(words, text))
    for verb, pattern in _GRAMMAR:
        names = _match(pattern, words)
        if names is not None:
            operands, options = names
            return Command(verb, operands, options)
    raise CommandError(mistake_of(words, text))


def _split(text: str) -> list[str]:
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=",=")
    lexer.whitespace_split = False
    lexer.commenters = ""
    if text.lstrip().startswith("push"):
        lexer.escape = ""  # backslashes belong to the regular expressions, between any quotes
    lexer.wordchars += "-.:/~*?+@%!$&|^;<>[]{}()\\#"
    try:
        return list(lexer)
    except ValueError as error:
        raise CommandError(f"cannot read command: {text}: {error}") from error


# A pattern is a list of literal words, NAME (one operand), NAMES (operands between commas),
# MAYBE (one operand, optional) and OPTIONS (`with name=value, ...`, optional).
NAME, NAMES, MAYBE, OPTIONS = "<name>", "<names>", "<maybe>", "<options>"

_SERVER_VERBS = ("create", "start", "stop", "restart", "cleanup", "delete", "deploy")

_GRAMMAR: tuple[tuple[str, tuple[str, ...]], ...] = (
    *((verb, (verb, "server", NAME, OPTIONS)) for verb in _SERVER_VERBS),
    ("setopt", ("setopt", NAME, NAME)),
    ("setopt", ("setopt", NAME, "=", NAME)),
    ("switch", ("switch", NAME)),
    ("eval", ("eval", NAME, NAME)),
    ("get_iproto_uri", ("get_iproto_uri", "server", NAME)),
    ("get_log", ("get_log", "server", NAME)),
    ("create_connection", ("create", "connection", NAME, "to", NAME)),
    ("drop_connection", ("drop", "connection", NAME)),
    ("set_connection", ("set", "connection", NAMES)),
    ("set_variable", ("set", "variable", NAME, "to", NAME)),
    ("config", ("config", MAYBE)),
    ("push_filter", ("push", "filter", NAME, "to", NAME)),
    ("pop_filter", ("pop", "filter")),
    ("clear_filter", ("clear", "filter")),
)

_Taken = tuple[tuple[str, ...], int]


def _match(pattern: Sequence[str], words: list[str]) -> tuple[tuple[str, ...], dict[str, Option]] | None:
    names: list[str] = []
    options: dict[str, Option] = {}
    position = 0
    for part in pattern:
        if part == OPTIONS:
            options = _read_options(words[position:])
            position = len(words)
            continue
        taker = _TAKERS.get(part)
        taken = taker(words, position) if taker else _take_literal(part, words, position)
        if taken is None:
            return None
        names.extend(taken[0])
        position = taken[1]
    return (tuple(names), options) if position == len(words) else None


def _take_literal(part: str, words: list[str], position: int) -> _Taken | None:
    if position < len(words) and words[position] == part:
        return (), position + 1
    return None


def _take_name(words: list[str], position: int) -> _Taken | None:
    return ((words[position],), position + 1) if position < len(words) else None


def _take_maybe(words: list[str], position: int) -> _Taken:
    return _take_name(words, position) or ((), position)


def _take_names(words: list[str], position: int) -> _Taken | None:
    names = words[position::2]
    if not names or any(word != "," for word in words[position + 1 :: 2]):
        return None
    return tuple(names), len(words)


_TAKERS: dict[str, Callable[[list[str], int], _Taken | None]] = {
    NAME: _take_name,
    NAMES: _take_names,
    MAYBE: _take_maybe,
}


def _read_options(words: list[str]) -> dict[str, Option]:
    if not words:
        return {}
    if words[0] != "with" or len(words) == 1:
        raise CommandError(f"expected options, got: {' '.join(words)}")
    options: dict[str, Option] = {}
    rest = words[1:]
    while rest:
        # The equals sign is optional: `with script "replica.lua"`.
        pair = [word for word in rest[:3] if word != "="] if rest[1:2] == ["="] else rest[:2]
        if len(pair) < 2 or "," in pair:
            raise CommandError(f"expected name=value, got: {' '.join(rest)}")
        options[pair[0]] = _option_value(*pair)
        rest = rest[3 if rest[1] == "=" else 2 :]
        if rest and rest[0] != ",":
            raise CommandError(f"expected a comma, got: {rest[0]}")
        rest = rest[1:]
    return options


def _option_value(name: str, text: str) -> Option:
    """Convert the value of an option: `true` and `false` become booleans, except in `args`, which go to the script
    unchanged.
    """
    lowered = text.lower()
    return lowered == "true" if name != "args" and lowered in ("true", "false") else text
