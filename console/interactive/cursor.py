"""Parses the text before the cursor for completion: the name being written and the calls around it.

A text is scanned once from its beginning. `Place.path` and `Place.partial` are the dotted name before the cursor
(`box.space.go` -> ("box", "space"), "go"). `Place.calls` are the open brackets around it, the innermost last, each with
the name before it, the number of the argument and the strings given so far.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

MOST_TEXT: Final = 4_000
"""The characters before the cursor that are examined; the beginning of a longer text is ignored."""

_TOKEN = re.compile(
    r"""
    (?P<comment> --\[(?P<c>=*)\[ .*? (?: \](?P=c)\] | \Z ) | --[^\n]* )
  | (?P<long> \[(?P<l>=*)\[ .*? (?: \](?P=l)\] | \Z ) )
  | (?P<string> "(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'? )
  | (?P<name> [A-Za-z_]\w* )
  | (?P<number> \d[\w.]* )
  | (?P<space> \s+ )
  | (?P<mark> \.\.\.?|[<>=~]=|. )
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS_ESCAPED = re.compile(r"(?<!\\)(\\\\)*\\.\Z", re.DOTALL)
KEYWORDS: Final = tuple(
    (
        "and break do else elseif end false for function if in local nil not or repeat return then true until while"
    ).split()
)

Path = tuple[str, ...]


@dataclass(slots=True)
class Call:
    """An open bracket: `function` is the name before it, or empty.

    `texts` are the strings by argument number; `key` is the name before the last `=` in a table.
    """

    bracket: str
    function: Path
    argument: int = 0
    texts: dict[int, str] = field(default_factory=dict)
    key: str = ""
    is_method: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """The cursor's place in a statement.

    `text` is the string that is open there, None outside of strings. `is_known` is False if the object before a dot is
    unknown (the result of a call).
    """

    path: Path
    partial: str
    is_method: bool
    is_known: bool
    text: str | None
    calls: tuple[Call, ...]

    @property
    def call(self) -> Call | None:
        """The innermost call with a name, which the help bar explains."""
        return next((call for call in reversed(self.calls) if call.bracket != "[" and call.function), None)


class _NameScan:
    def __init__(self) -> None:
        self.path: list[str] = []  # the name so far; empty if it is unknown
        self.separator = ""  # the dot or colon after the name
        self.before = Place((), "", False, True, None, ())  # the last name, and the path before it
        self.open_text: str | None = None
        self.calls: list[Call] = []

    def take(self, kind: str, text: str, is_last: bool) -> None:
        match kind:
            case "comment":
                self._comment(text, is_last)
            case "string" | "long":
                self._string(kind, text, is_last)
            case "name":
                self._name(text)
            case "number":
                self._number(text)
            case "mark":
                self._mark(text)

    def _comment(self, text: str, is_last: bool) -> None:
        if is_last and not (text.startswith("--[") and text.endswith("]")):
            self.open_text = text
            self.calls.clear()

    def _string(self, kind: str, text: str, is_last: bool) -> None:
        if is_last and _is_open(kind, text):
            if self.path and not self.separator:
                self._open("(")  # a call without parentheses, such as f'text
            self.open_text = text[1:] if kind == "string" else text
            return
        if self.calls and kind == "string":
            call = self.calls[-1]
            call.texts[call.argument] = text[1:-1]
        self._forget()

    def _name(self, text: str) -> None:
        if self.separator:
            known = bool(self.path)
            self.before = Place(tuple(self.path), text, self.separator == ":", known, None, ())
            self.path = [*self.path, text] if known else []
        else:
            self.before = Place((), text, False, True, None, ())
            self.path = [] if text in KEYWORDS else [text]
        self.separator = ""

    def _number(self, text: str) -> None:
        if self.calls and self.calls[-1].bracket == "[":
            self.calls[-1].texts[0] = text
        self._forget()

    def _mark(self, text: str) -> None:
        if text in (".", ":"):
            self.separator = text
        elif text in ("(", "{", "["):
            self._open(text)
        elif text in (")", "}", "]"):
            self._close(text)
        else:
            if text == "," and self.calls:
                self.calls[-1].argument += 1
                self.calls[-1].key = ""
            elif text == "=" and self.calls and self.path:
                self.calls[-1].key = self.path[-1]
            elif self.calls and self.calls[-1].bracket == "[":
                self.calls[-1].function = ()  # an expression as an index: the member is unknown
            self._forget()

    def _open(self, bracket: str) -> None:
        function = () if self.separator else tuple(self.path)
        is_method = bool(function) and self.before.is_method
        self.calls.append(Call(bracket, function, is_method=is_method))
        self._forget()

    def _close(self, bracket: str) -> None:
        call = self.calls.pop() if self.calls else None
        self._forget()
        if call is not None and bracket == "]" and call.function and call.texts:
            self.path = [*call.function, call.texts[0]]

    def _forget(self) -> None:
        """Begin anew, because the next token does not continue a name."""
        self.path, self.separator = [], ""

    def place(self, is_at_name: bool) -> Place:
        if is_at_name:
            before = self.before
        elif self.separator:
            before = Place(tuple(self.path), "", self.separator == ":", bool(self.path), None, ())
        else:
            before = Place((), "", False, True, None, ())
        return replace(before, text=self.open_text, calls=tuple(self.calls))


def _is_open(kind: str, text: str) -> bool:
    if kind == "long":
        return len(text) < 4 or not text.endswith("]")  # `[[` and `]]` are four characters
    return len(text) < 2 or text[-1] != text[0] or _ENDS_ESCAPED.search(text) is not None


def look(text: str) -> Place:
    """Return the place at the end of a text."""
    scan, tokens = _NameScan(), list(_TOKEN.finditer(text[-MOST_TEXT:]))
    for number, token in enumerate(tokens):
        scan.take(token.lastgroup or "", token[0], number == len(tokens) - 1)
    return scan.place(bool(tokens) and tokens[-1].lastgroup == "name")
