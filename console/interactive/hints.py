"""Hints for statements of another kind: SQL, commands of other databases, mistyped words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LEAVE: Final = frozenset({"quit", "exit", "quit()", "exit()"})
"""The statements that end the session."""

_WORDS: Final = ("help", "quit", "exit", "tutorial")
_SQL: Final = re.compile(
    r"\s*(select|insert|update|delete|create|drop|alter|show|describe|desc|use|explain|with|pragma|truncate)\b"
    r"(?!\s*[(.:=\[{'\"])",
    re.IGNORECASE,
)
_TABLE: Final = re.compile(r"\b(?:from|into|update|table|describe|desc)\s+[\"`]?([a-z_]\w*)", re.IGNORECASE)
_LIKE_A_WORD: Final = re.compile(r"([a-z]{3,10})(\(\))?")
_NOTHING: Final = frozenset({"---\n- null\n...", "nil;", "box.NULL;"})


def hint(statement: str, answer: str, *, is_error: bool) -> str | None:
    """Return the hint to show below the answer to a statement, or None."""
    if is_error and _SQL.match(statement):
        return _hint_for_sql(statement)
    word = _LIKE_A_WORD.fullmatch(statement.strip())
    if word is not None and (is_error or _is_nothing(answer)):
        # With 0.7 a word of four letters may have one wrong letter, one of three letters none.
        close = get_close_matches(word[1], _WORDS, 1, 0.7)
        if close and close[0] != word[1]:
            return f"did you mean {close[0]}?"
    return None


def suggestion(name: str, known: Iterable[str]) -> str:
    r"""Return the text that follows `unknown command \NAME`."""
    # Abbreviations of one letter would be close to any word of two letters that has it. 0.6 is Python's default.
    close = get_close_matches(name, [each for each in known if len(each) > 1], 1, 0.6)
    return f"did you mean \\{close[0]}?" if close else "\\help lists them"


def _hint_for_sql(statement: str) -> str:
    if statement.split()[0].lower() == "show":
        return "statements are Lua here; \\dt lists the spaces, \\d NAME describes one"
    found = _TABLE.search(statement)
    name = found[1] if found else "NAME"
    return f"statements are Lua here, such as box.space.{name}:select(); \\set language sql is for SQL"


def _is_nothing(answer: str) -> bool:
    text = answer.strip()
    return text in _NOTHING or text.split("\n")[2:] == ["null", "1 row"]
