"""Completion of statements of SQL: keywords, functions, tables, and the columns of the tables that a statement names.

A name in upper case is offered in the case of the letters that were typed, since SQL takes it either way; any other
name stands in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completion

_TOKEN: Final = re.compile(
    r"""
    (?P<open> --[^\n]*\Z | /\*(?:(?!\*/).)*\Z | '(?:[^']|'')*\Z )
  | (?P<skipped> --[^\n]*\n | /\*.*?\*/ | '(?:[^']|'')*' | \s+ | \d[\w.]* )
  | (?P<quoted> "(?:[^"]|"")*"? )
  | (?P<name> [^\W\d][\w$]* )
  | (?P<mark> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
_WORD_OR_MARK: Final = ("name", "quoted", "mark")
_LIMIT: Final = 100
"""The names that a menu offers at most, as in Lua."""

Ask = Callable[..., Awaitable[Any]]


class SqlPlace(NamedTuple):
    """The cursor's place in an SQL statement."""

    partial: str
    """The name that is being written, without quotes."""
    is_quoted: bool
    table: str | None
    """The name before a dot."""
    tables: tuple[str, ...]
    """The names in the statement: tables and others."""
    aliases: dict[str, str]
    """The tables by their aliases: an alias is a name that follows another name."""
    is_open: bool
    """True if a string or a comment is open at the cursor."""


def look_at_sql(text: str, after: str = "") -> SqlPlace:
    """Return the cursor's place at the end of a text; `after` is the rest of the statement."""
    tokens = [(token.lastgroup or "", token[0]) for token in _TOKEN.finditer(text)]
    is_open = bool(tokens) and tokens[-1][0] == "open"
    partial, is_quoted = "", False
    if tokens and tokens[-1][0] == "name":
        partial = tokens.pop()[1]
    elif tokens and tokens[-1][0] == "quoted" and not _is_closed(tokens[-1][1]):
        partial, is_quoted = tokens.pop()[1][1:], True
    table = None
    if len(tokens) > 1 and tokens[-1] == ("mark", ".") and tokens[-2][0] in ("name", "quoted"):
        table = _meant(tokens[-2][1])
    rest = [(token.lastgroup or "", token[0]) for token in _TOKEN.finditer(after)]
    words = [_meant(item) if group != "mark" else None for group, item in (*tokens, *rest) if group in _WORD_OR_MARK]
    words = [word for word in words if word != "AS"]
    keywords = _keywords()
    aliases = {alias: name for name, alias in pairwise(words) if alias and name and not {alias, name} & keywords}
    names = dict.fromkeys(word for word in words if word is not None and word not in keywords)
    return SqlPlace(partial, is_quoted, table, tuple(names), aliases, is_open)


def _is_closed(quoted: str) -> bool:
    return len(quoted) > 1 and quoted.count('"') % 2 == 0


def _meant(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.upper()


@cache
def _keywords() -> frozenset[str]:
    from box.sql.parse.tokens import USED_KEYWORDS

    return USED_KEYWORDS


@cache
def _words() -> dict[str, str]:
    """Return keywords and built-in functions with their kinds."""
    from box.sql.aggregates import AGGREGATES
    from box.sql.builtins import SCALARS
    from box.sql.pragmas import PRAGMAS

    words = {name.upper(): "pragma" for name in PRAGMAS}
    words |= dict.fromkeys(_keywords(), "")
    return words | dict.fromkeys((*SCALARS, *AGGREGATES, "PRINTF", "RANDOM", "ROW_COUNT", "VERSION"), "function")


async def sql_completions(ask: Ask, text: str, after: str, event: CompleteEvent) -> AsyncGenerator[Completion, None]:
    """Yield completions for the end of `text`: tables and columns of the node first, then keywords and functions."""
    place = look_at_sql(text, after)
    if place.is_open or not (place.partial or place.is_quoted or place.table or event.completion_requested):
        return
    tables = list(place.tables) if place.table is None else [place.aliases.get(place.table, ""), place.table]
    answer = await ask("sql_names", place.partial, tables, _LIMIT)
    found = answer[2] if isinstance(answer, (list, tuple)) and len(answer) == 3 else []
    names = {str(name): str(kind) for name, kind in found or ()}
    for name, kind in sorted(names.items(), key=lambda item: (item[1] != "column", item[0])):
        if place.table is None or kind == "column":
            yield _completion(place, name, kind)
    if place.table is not None or place.is_quoted or not place.partial:
        return
    for word, kind in sorted(_words().items()):
        if word.startswith(place.partial.upper()) and word not in names:
            yield _completion(place, word, kind)


def _completion(place: SqlPlace, name: str, kind: str) -> Completion:
    start = -len(place.partial) - int(place.is_quoted)
    is_lower = place.partial != "" and place.partial == place.partial.lower()
    if place.is_quoted or not _PLAIN.fullmatch(name):
        shown = '"' + name.replace('"', '""') + '"'
    else:
        shown = name.lower() if is_lower else name
    return Completion(shown, start_position=start, display=name, display_meta=kind)
