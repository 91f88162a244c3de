"""Formats rows as a table that fits the terminal.

id  │ name │ price          columns are as wide as their texts. A wider table than the terminal is cut, the widest
────┼──────┼──────          columns first, and marked by `…`; where columns would get too narrow, each row becomes
  1 │ pear │   2.5          a list of names and values. Numbers stand on the right; an absent value is `null`.
1 row
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from wcwidth import wcswidth, wcwidth

MARK: Final = "…"
_NARROWEST: Final = 4
"""Columns are not cut to fewer characters than this: three and the mark of omission."""
_NULL: Final = "null"

Cell = str | None


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows with the same columns. `total` also counts those that are not in `rows`."""

    columns: tuple[str, ...]
    is_number: tuple[bool, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: int


@dataclass(frozen=True, slots=True)
class Lines:
    """The characters that draw tables."""

    bar: str
    rule: str
    cross: str
    mark: str


class Screen(NamedTuple):
    """The width of a terminal in characters (0 means no limit) and the characters that draw tables on it."""

    width: int
    lines: Lines


UNICODE: Final = Lines(" │ ", "─", "─┼─", MARK)
ASCII: Final = Lines(" | ", "-", "-+-", "~")


def groups_of(described: Sequence[Any]) -> list[RowGroup]:
    """Decode the row groups that `internal/console_rows.lua` has described."""
    return [
        RowGroup(
            tuple(map(_text, columns)),
            tuple(map(bool, is_number)),
            tuple(tuple(None if cell is None else _text(cell) for cell in row) for row in rows),
            int(total),
        )
        for columns, is_number, rows, total in described
    ]


def render(groups: Iterable[RowGroup], width: int = 0, lines: Lines = UNICODE) -> str:
    """Return the text of all tables, ending with a line break; `width` is the terminal's, 0 means no limit."""
    texts = [_render(group, width, lines) for group in groups]
    return "\n".join(texts) if texts else "no values\n"


def _render(group: RowGroup, width: int, lines: Lines) -> str:
    if not group.columns:
        return f"{_count(group)}\n"
    cells = [tuple(_NULL if cell is None else _visible(cell) for cell in row) for row in group.rows]
    names = [_visible(name) for name in group.columns]
    wanted = [max(text_width(row[i]) for row in (names, *cells)) for i in range(len(names))]
    widths = _fit(wanted, width, text_width(lines.bar))
    if widths is None:
        return _as_lists(group, names, cells, width, lines)
    body = [_line(row, widths, group.is_number, lines) for row in cells]
    rule = lines.cross.join(lines.rule * each for each in widths)
    head = _line(names, widths, group.is_number, lines)
    is_cut = any(given < needed for given, needed in zip(widths, wanted, strict=True))
    return "\n".join([head, rule, *body, _count(group, is_cut), ""])


def _count(group: RowGroup, is_cut: bool = False) -> str:
    text = "1 row" if group.total == 1 else f"{group.total} rows"
    notes = []
    if group.total > len(group.rows) > 0:
        notes.append(f"the first {len(group.rows)} shown, \\set rows 0 shows all")
    if is_cut:
        notes.append("fields cut, \\set width 0 shows all")
    return f"{text} ({'; '.join(notes)})" if notes else text


def _fit(wanted: Sequence[int], width: int, gap: int) -> list[int] | None:
    """Return column widths that fit, the widest cut first, or None if columns would be too narrow to be useful."""
    widths = list(wanted)
    room = width - gap * (len(widths) - 1)
    if width <= 0 or sum(widths) <= room:
        return widths
    least = [min(each, _NARROWEST) for each in widths]
    if sum(least) > room:
        return None
    limit = max(widths)
    low, high = _NARROWEST, limit
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(each, middle) for each in widths) <= room:
            low = middle
        else:
            high = middle - 1
    fitted = [min(each, low) for each in widths]
    spare = room - sum(fitted)
    for i, each in enumerate(widths):
        if spare > 0 and fitted[i] < each:
            fitted[i], spare = fitted[i] + 1, spare - 1
    return fitted


def _line(row: Sequence[str], widths: Sequence[int], is_number: Sequence[bool], lines: Lines) -> str:
    cells = [
        fill(cut(text, width, lines.mark), width, is_right=is_right)
        for text, width, is_right in zip(row, widths, is_number, strict=True)
    ]
    return lines.bar.join(cells).rstrip()


def _as_lists(group: RowGroup, names: list[str], cells: list[tuple[str, ...]], width: int, lines: Lines) -> str:
    """Format each row as lines of a name and a value."""
    name_width = min(max(map(text_width, names)), max(_NARROWEST, width // 3))
    value_width = max(1, width - name_width - text_width(lines.bar))
    text, is_cut = [], False
    for number, row in enumerate(cells, 1):
        text.append(cut(f"{lines.rule * 2} {number} ".ljust(width, lines.rule), width, lines.mark))
        for name, value in zip(names, row, strict=True):
            is_cut = is_cut or text_width(value) > value_width
            head = fill(cut(name, name_width, lines.mark), name_width)
            text.append(f"{head}{lines.bar}{cut(value, value_width, lines.mark)}".rstrip())
    return "\n".join([*text, _count(group, is_cut), ""])


# -- texts -----------------------------------------------------------------------------------------------


def text_width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    return len(text) if text.isascii() else max(0, wcswidth(text))


def cut(text: str, width: int, mark: str = MARK) -> str:
    """Return the beginning of a text that fits, ending with a mark if it was cut."""
    if text_width(text) <= width:
        return text
    taken, used = [], 0
    for char in text:
        used += max(0, wcwidth(char))
        if used > width - 1:
            break
        taken.append(char)
    return "".join(taken) + mark if width > 0 else ""


def fill(text: str, width: int, *, is_right: bool = False) -> str:
    """Pad a text with spaces, on its left side if it stands on the right."""
    space = " " * (width - text_width(text))
    return space + text if is_right else text + space


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\x1b": "\\e"}


def _visible(text: str) -> str:
    r"""Replace characters that would move the cursor by escapes, and bytes that are not UTF-8 by `\xff` and the
    like.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escape, text))


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if "\udc80" <= char <= "\udcff":  # a byte that is not UTF-8, which `surrogateescape` adds to U+DC00
        return f"\\x{ord(char) - 0xDC00:02x}"
    if wcwidth(char) < 0 or (unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char != "\u200d"):
        return f"\\u{{{ord(char):x}}}"
    return char


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    return str(value)
