"""Completion and the help bar, on a node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from box.embed import LuaInstance
from console.bindings import TerminalConsole
from console.interactive import signatures
from console.interactive.completer import LIMIT, StatementCompleter
from console.interactive.helpbar import HelpBar

SETUP = b"""
    box.cfg{log_level = 1}
    local goods = box.schema.space.create('goods', {format = {{'id', 'unsigned'}, {'name', 'string'}}})
    goods:create_index('pk') goods:create_index('by_name', {parts = {2}, unique = false})
    box.schema.user.create('guido') box.schema.role.create('readers')
    box.schema.func.create('total')
    tuple = goods:insert{1, 'pear'}
    loadstring('-- Adds two numbers. It is quick.\\nfunction add(first, second, ...) end')()
    outer = {inner = {value = 5}, _hidden = 1}
    object = setmetatable({}, {__index = {method = function() end, field = 1}})
    trap = setmetatable({}, {__index = function() error('touched') end})
"""

Session = tuple[asyncio.AbstractEventLoop, TerminalConsole]
Complete = Callable[[str], Awaitable[list[Completion]]]


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


def complete(node: Session, text: str, *, asked: bool = True) -> list[Completion]:
    loop, consoles = node

    async def run() -> list[Completion]:
        completer, event = StatementCompleter(consoles.ask), CompleteEvent(completion_requested=asked)
        return [each async for each in completer.get_completions_async(Document(text), event)]

    return loop.run_until_complete(run())


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("box.sp", ["space"]),
        ("return box.schema.us", ["user"]),
        ("box.space.go", ["goods"]),
        ("box.space.goods.index.", ["by_name", "pk"]),
        ("box.space['goods'].index.pk:sel", ["select("]),
        ("box.space.goods:ins", ["insert("]),
        ("box.info.repl", ["replication", "replication_anon("]),
        ("tuple.na", ["name"]),
        ("tuple:unp", ["unpack("]),
        ("outer.inner.", ["value"]),
        ("outer._", ["_hidden"]),
        ("object:", ["method("]),
        ("ad", ["add("]),
        ("whi", ["while"]),
        ("require('net", ["net.box"]),
        ("box.space['g", ["goods"]),
        ("box.space.goods.index['by", ["by_name"]),
        ("box.schema.user.passwd('gu", ["guest", "guido"]),
        ("box.schema.user.grant('guido', 'read", ["read", "readers"]),
        ("box.schema.user.grant('guido', 'read', 'sp", ["space"]),
        ("box.schema.user.grant('guido', 'read', 'space', 'go", ["goods"]),
        ("box.schema.role.drop('re", ["readers", "replication"]),
        ("box.schema.func.drop('t", ["total"]),
        ("s:select({1}, {iterator = 'R", ["REQ"]),
        ("box.space.goods:create_index('x', {parts = {'na", ["name"]),
        ("box.error.injection.set('ERRINJ_WAL_IO", ["ERRINJ_WAL_IO"]),
        ("\\ti", ["timing"]),
        ("\\set ou", ["output"]),
        ("\\set output ta", ["table"]),
        ("\\set editing ", ["emacs", "vi"]),
    ],
)
def test_completion(node: Session, text: str, some: list[str]) -> None:
    """Globals, members, methods, fields, names in strings and commands are offered, sorted and once each."""
    found = [each.text for each in complete(node, text)]
    assert found == sorted(set(found))
    assert set(some) <= set(found)


@pytest.mark.parametrize("text", ["f(x).a", "-- box.s", "'box.s", "nothing.here.", "trap.x", "object:fie"])
def test_nothing_to_complete(node: Session, text: str) -> None:
    """Nothing is offered where the object is unknown, and no metamethod runs."""
    assert complete(node, text) == []


def test_the_menu_does_not_open_before_a_name_begins(node: Session) -> None:
    assert complete(node, "x = ", asked=False) == []
    assert complete(node, "box.", asked=False) != []


def test_ten_thousand_spaces(node: Session) -> None:
    """With ten thousand spaces the menu keeps its size, shows how many more there are, and takes a few milliseconds."""
    loop, consoles = node
    loop.run_until_complete(
        consoles._runtime.eval(b"for i = 1, 10000 do rawset(box.space, ('many%05d'):format(i), box.space.goods) end")
    )
    try:
        complete(node, "box.space.m")
        begin = time.process_time()
        for _ in range(5):
            found = complete(node, "box.space.m")
        spent = (time.process_time() - begin) / 5
        assert [each.text for each in found[:2]] == ["many00001", "many00002"]
        assert (len(found), found[-1].display_meta_text) == (LIMIT + 1, f"{10000 - LIMIT} more")
        assert spent < 0.05
    finally:
        loop.run_until_complete(
            consoles._runtime.eval(b"for i = 1, 10000 do rawset(box.space, ('many%05d'):format(i), nil) end")
        )


# -- the bar ---------------------------------------------------------------------------------------------------


def names(node: Session, text: str) -> list[str]:
    return [each.text for each in complete(node, text)]


def shown(node: Session, text: str, width: int = 80) -> str:
    loop, consoles = node

    async def run() -> str:
        changed = asyncio.Event()
        bar = HelpBar(consoles.ask, changed.set)
        bar.update(text)
        while bar._task is not None and not bar._task.done():
            await asyncio.sleep(0)
        return "".join(fragment[1] for fragment in bar.shown(width) or [])

    return loop.run_until_complete(run())


def test_bar(node: Session) -> None:
    """The bar explains Lunabox's functions under any name of the object, and shows parameters and
    comments of others.
    """
    assert shown(node, "box.snapshot") == "box.snapshot()  write all data to a snapshot file"
    assert shown(node, "box.space.goods:insert{1,").startswith("space:insert(tuple)  add a tuple")
    assert shown(node, "box.space.goods.index.pk:get(").startswith("index:get(key)")
    assert shown(node, "add(1").startswith("add(first, second, ...)  Adds two numbers.  console:")
    assert shown(node, "nothing(") == ""
    assert shown(node, "1 + 1") == ""


def test_bar_in_twenty_columns(node: Session) -> None:
    """In twenty columns the bar's text is cut, not wrapped."""
    assert len(shown(node, "box.space.goods:insert{1,", 20)) <= 20


def test_signatures_are_of_functions_that_exist(node: Session) -> None:
    """Every line of the file of signatures is valid, and names a function that exists."""
    loop, consoles = node
    lines = [line for line in signatures._FILE.read_text().splitlines() if not line.startswith("#")]
    assert len(signatures.known()) == len(lines) > 200

    async def missing() -> list[str]:
        source = b"""
            local found = {}
            for _, name in ipairs(...) do
                local owner, rest = name:match('^(.*)[.]([%w_]+)$')
                local ok, module = pcall(require, owner or '')
                local value = ok and type(module) == 'table' and module[rest]
                if not value then
                    local first, others = name:match('^([^.]+)(.*)$')
                    local is_module, whole = pcall(require, first)
                    value = is_module and whole or _G[first]
                    for part in others:gmatch('[^.]+') do
                        value = type(value) == 'table' and value[part] or nil
                    end
                end
                if value == nil or value == false then found[#found + 1] = name end
            end
            return found
        """
        from box.data.codec import pack, unpack

        names = [name for name in signatures.known() if ":" not in name]
        return list(unpack(await consoles._runtime.eval(source, pack([names])))[0])

    assert loop.run_until_complete(missing()) == []


def test_hidden_files_are_offered_when_asked_for(
    node: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".hidden").touch()
    (tmp_path / "seen").mkdir()
    monkeypatch.chdir(tmp_path)
    assert names(node, "\\o ") == ["seen/"]
    assert names(node, "\\o .") == [".hidden"]


def test_brackets_offer_names_of_the_table_itself(node: Session) -> None:
    """`box.space['` has the names of spaces, `box.space.goods['` has not."""
    assert "goods" in names(node, "box.space['go")
    assert names(node, "box.space.goods['go") == []
