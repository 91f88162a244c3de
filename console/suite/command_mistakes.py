"""The texts for commands that the inspector does not understand, as Tarantool's runner has them; pure."""

from __future__ import annotations

import shlex


def mistake_of(words: list[str], text: str) -> str:
    """Return a text about the mistake in a command, given as its words and as a whole."""
    match words:
        case ["setopt"]:
            return "Wrong token for setopt: expected option name"
        case ["setopt", _]:
            return "Wrong token for setopt: expected option value"
        case [verb, "server", *rest]:
            return _server_mistake(verb, rest)
        case [verb, "connection", *rest]:
            return _connection_mistake(verb, rest)
        case [verb, "filter", *rest]:
            return _filter_mistake(verb, rest, _as_given(text, min(len(words) - 1, 3)))
        case [verb, "variable", *rest]:
            return _variable_mistake(verb, rest)
    return f"Wrong command: {text.strip()!r}"


def _server_mistake(verb: str, rest: list[str]) -> str:
    if not rest:
        return "Wrong token for server: expected name"
    if len(rest) > 1 and rest[1] != "with":
        return f"Wrong token for server: expected 'with', got {rest[1]!r}"
    return f"Unknown command for server: {verb}"


def _connection_mistake(verb: str, rest: list[str]) -> str:
    if not rest:
        return "Wrong token for connection: expected name"
    if len(rest) > 1 and rest[1] not in ("to", ","):
        return f"Wrong token for server: expected 'to' or ',', got {rest[1]!r}"
    return f"Unknown command for connection: {verb!r}"


def _as_given(text: str, number: int) -> str:
    """Return a word of a command with its quotes."""
    lexer = shlex.shlex(text)
    lexer.commenters = ""
    return str([*lexer][number])


def _filter_mistake(verb: str, rest: list[str], last: str) -> str:
    if rest and rest[1:2] != ["to"]:
        return f"Wrong token for filter: expected 'to', got {last!r}"
    if len(rest) == 2:
        return "Wrong token for filter: expected filter2"
    return f"Wrong command for filters: {verb!r}"


def _variable_mistake(verb: str, rest: list[str]) -> str:
    if rest[1:2] != ["to"]:
        return f"Wrong token for filter: exptected 'to', got {''.join(rest[1:2])!r}"
    return f"Wrong command for variables: {verb!r}"
