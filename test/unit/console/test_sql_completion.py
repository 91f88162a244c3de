r"""With `\set language sql` the terminal completes words of SQL, tables and columns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from box.embed import LuaInstance
from console.bindings import TerminalConsole
from console.interactive.completer import StatementCompleter
from console.interactive.sql_completion import look_at_sql, sql_completions

SETUP = b"""
    box.cfg{log_level = 1}
    box.execute('create table goods (id int primary key, name text, price double)')
    box.execute('create table orders (id int primary key, goods_id int)')
    local space = box.schema.space.create('mixed Case', {format = {{'id', 'unsigned'}, {'two words', 'string'}}})
"""
Session = tuple[asyncio.AbstractEventLoop, TerminalConsole]


@pytest.fixture(scope="module")
def node() -> Iterator[Session]:
    loop = asyncio.new_event_loop()

    async def start() -> tuple[LuaInstance, TerminalConsole]:
        instance = LuaInstance(None)
        consoles = TerminalConsole(instance)
        await instance.runtime.eval(SETUP)
        return instance, consoles

    instance, consoles = loop.run_until_complete(start())
    yield loop, consoles
    loop.run_until_complete(instance.stop())
    loop.close()


def complete(node: Session, text: str, *, after: str = "", asked: bool = False) -> list[str]:
    loop, consoles = node

    async def run() -> list[str]:
        completer, event = StatementCompleter(consoles.ask), CompleteEvent(completion_requested=asked)
        completer.language = "sql"
        document = Document(text + after, len(text))
        return [each.text async for each in completer.get_completions_async(document, event)]

    return loop.run_until_complete(run())


@pytest.mark.parametrize(
    ("text", "after", "found"),
    [
        ("sel", "", ["select"]),
        ("SELECT * FROM goo", "", ["goods"]),
        ("SELECT * FROM GOO", "", ["GOODS"]),
        ("select na", " from goods", ["name", "natural"]),
        ("select * from goods g where g.pr", "", ["price"]),
        ("select * from goods as g, orders where orders.", "", ["GOODS_ID", "ID"]),
        ("select * from mi", "", ['"mixed Case"', "min"]),
        ('select "two', ' from "mixed Case"', ['"two words"']),
        ("pragma table_", "", ["table_info"]),
        ("select upp", "", ["upper"]),
        ("select 'goo", "", []),
        ("select 1 -- goo", "", []),
        ("select ", "", []),
    ],
)
def test_words_tables_and_columns(node: Session, text: str, after: str, found: list[str]) -> None:
    assert complete(node, text, after=after) == found


def test_all_tables_are_offered_if_asked(node: Session) -> None:
    assert complete(node, "select * from ", asked=True) == ["GOODS", "ORDERS", '"mixed Case"']


def test_commands_are_completed_as_ever(node: Session) -> None:
    assert complete(node, "\\set language ") == ["lua", "sql"]


def test_an_alias_is_the_name_behind_a_table() -> None:
    place = look_at_sql("select x.a from first as x join second y on x.")
    assert place.table == "X"
    assert place.aliases["X"] == "FIRST"
    assert place.aliases["Y"] == "SECOND"
    assert not place.is_open


def test_columns_come_before_tables() -> None:
    """Names are sorted by their kind first, then by their text."""

    async def ask(*_: Any) -> Any:
        return ["", 2, [["ALPHA", "table"], ["AZURE", "column"]]]

    async def names() -> list[str]:
        event = CompleteEvent(completion_requested=True)
        return [found.display_text async for found in sql_completions(ask, "SELECT a", "", event)]

    assert asyncio.run(names())[:2] == ["AZURE", "ALPHA"]
