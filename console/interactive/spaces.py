r"""`\dt` and `\d NAME`: tables of a node's spaces, and of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

from console.interactive.completer import Ask
from lua.text_console.text_table import Lines, RowGroup, render

MOST: Final = 1000
"""The most spaces in a list; further ones are only counted."""


class SpacesError(Exception):
    """Raised if there is nothing to show; the text gives the reason."""


async def list_text(ask: Ask, width: int, lines: Lines) -> str:
    """Return the table of the user's spaces.

    Raises:
        SpacesError: the node does not answer, or has no spaces.
    """
    total, spaces = await _answer(ask, "spaces", MOST)
    if not total:
        raise SpacesError("no spaces yet: box.schema.space.create('name') makes one")
    rows = [tuple(None if value is None else str(value) for value in space) for space in spaces]
    columns = ("space", "id", "engine", "tuples", "indexes")
    return render([RowGroup(columns, (False, True, False, True, True), tuple(rows), int(total))], width, lines)


async def space_text(ask: Ask, name: str, width: int, lines: Lines) -> str:
    """Return the description of a space: its size, its fields and its indexes.

    Raises:
        SpacesError: the node does not answer, or there is no such space.
    """
    found = await _answer(ask, "space", name)
    if found is False:
        raise SpacesError(await _no_such_space(ask, name))
    title, number, engine, count, notes, fields, indexes = found
    facts = [f"id {number}", str(engine), "size unknown" if count is None else _counted(int(count), "tuple"), *notes]
    parts = [f"space {title} ({', '.join(map(str, facts))})\n"]
    if fields:
        parts.append(render([_group(("field", "type", "note"), fields)], width, lines))
    if indexes:
        parts.append(render([_group(("index", "type", "note", "parts"), indexes)], width, lines))
    else:
        parts.append(f"no index yet: box.space.{title}:create_index('pk') makes the first\n")
    return "\n".join(parts)


async def _answer(ask: Ask, function: str, argument: object) -> Any:
    found = await ask(function, argument)
    if found is None:
        raise SpacesError("the node does not tell; see box.space")
    return found


async def _no_such_space(ask: Ask, name: str) -> str:
    _, spaces = await _answer(ask, "spaces", MOST)
    close = get_close_matches(name, [str(space[0]) for space in spaces], 1)
    return f"no space {name}" + (f"; did you mean {close[0]}?" if close else "; \\dt lists them")


def _group(columns: tuple[str, ...], rows: Sequence[Sequence[object]]) -> RowGroup:
    texts = tuple(tuple(map(str, row)) for row in rows)
    return RowGroup(columns, (False,) * len(columns), texts, len(texts))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
