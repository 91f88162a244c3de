"""Functional indexes: rights, results of the function, creation and drop."""

from __future__ import annotations

from pathlib import Path

import pytest

from box.data.codec import pack
from box.txn.fast_run import change_rows
from box.wire.change import REPLACE, Request

from .box_support import Box, Run

PREPARE = """
    function define(name, body, options)
        options = options or {}
        options.body = body
        options.is_deterministic = options.is_deterministic ~= false
        options.is_sandboxed = options.is_sandboxed ~= false
        box.schema.func.create(name, options)
    end
    define('words', [[function(t)
        local keys = {}
        for word in t[2]:gmatch('%a+') do keys[#keys + 1] = {word:lower(), #word} end
        return keys
    end]], {opts = {is_multikey = true}})
    s = box.schema.space.create('s', {format = {{'id', 'unsigned'}, {'text', 'string'}}})
    s:create_index('pk')
    function ids(tuples) local found = {} for i, t in ipairs(tuples) do found[i] = t[1] end return found end
"""
WORDS = "i = s:create_index('words', {func = 'words', unique = false, parts = {{1, 'string'}, {2, 'unsigned'}}})"


def test_a_tuple_is_found_by_every_key_of_its_function(run: Run) -> None:
    """A tuple is found by each key of its function, in order and once; keys follow changes of the tuple
    and rollbacks.
    """

    async def body(box: Box) -> None:
        await box(PREPARE + "s:insert{1, 'Fig and fig'} s:insert{2, 'a pear'}" + WORDS)
        assert await box("return ids(i:select())") == [2, 1, 1, 2]
        assert await box("return i:len(), i:count('fig'), i:min()[1], i:max()[1]") == [4, 1, 2, 2]
        await box("s:update(1, {{'=', 2, 'Pear'}})")
        assert await box("return ids(i:select{'pear', 4})") == [1, 2]
        await box("box.begin() s:delete(2) s:replace{3, 'fig'} box.rollback()")
        assert await box("return ids(i:select())") == [2, 1, 2]
        await box("s:upsert({2, ''}, {{'=', 2, 'plum'}})")
        assert await box("return ids(i:select({'pear'}, {iterator = 'GE'}))") == [1, 2]

    run(body)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("t.text.x.y", "Failed to build a key for functional index 'i' of space 's': can't evaluate function"),
        (
            "print",
            "Failed to build a key for functional index 'i' of space 's': can't get a value returned by function",
        ),
        ("1, 2", "to many values were returned"),
        ("1", "supplied key type is invalid: expected array"),
        ("{1, 2}", "Invalid key part count in an exact match (expected 1, got 2)"),
        ("{1}", "key does not follow functional index definition"),
        ("{nil}", "Invalid key part count in an exact match (expected 1, got 0)"),
    ],
)
def test_wrong_results(run: Run, returned: str, text: str) -> None:
    """A wrong result of the function fails the write, which changes nothing; the error's cause says what is wrong."""

    async def body(box: Box) -> None:
        await box(PREPARE)
        await box(f"define('f', 'function(t) return {returned} end')")
        await box("s:create_index('i', {func = 'f', parts = {{1, 'string'}}})")
        assert (await box.fails("s:insert{1, 'x'}")).endswith(text)
        assert await box("return s:len(), s.index.i:len()") == [0, 0]
        if "can't evaluate" in text:
            cause = "attempt to index field 'x' (a nil value)"
            assert cause in await box("local _, e = pcall(s.insert, s, {1, 'x'}) return e.prev.message")

    run(body)


def test_definitions_that_are_refused(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(PREPARE)
        constraints = (
            "Wrong index options (field 0): referenced function doesn't satisfy functional index function constraints"
        )
        for options in ("{is_deterministic = false}", "{is_sandboxed = false}"):
            await box(f"define('f', 'function(t) return {{t[1]}} end', {options})")
            assert await box.fails("s:create_index('i', {func = 'f', parts = {{1, 'string'}}})") == constraints
            await box("box.func.f:drop()")
        assert await box.fails("s:create_index('i', {func = 'nobody', parts = {{1, 'string'}}})") == (
            "Function 'nobody' does not exist"
        )
        assert await box.fails("s:create_index('i', {func = 'words', parts = {{2, 'string'}}})") == (
            "Wrong functional index definition: key part numbers must be sequential and first part number must be 1"
        )
        assert await box.fails("s:create_index('i', {func = 'words', parts = {{1, 'string'}}, type = 'hash'})") == (
            "Can't create or modify index 'i' in space 's': HASH index can not use a function"
        )
        assert await box.fails("s.index.pk:alter{func = 'words'}") == (
            "Can't create or modify index 'pk' in space 's': primary key can not use a function"
        )

    run(body)


def test_the_function_stays_as_long_as_its_index(run: Run) -> None:
    """The function cannot be dropped while `_func_index` ties it to the index; without that row the index cannot be
    used.
    """

    async def body(box: Box) -> None:
        await box(PREPARE + WORDS + " s:insert{1, 'fig'}")
        assert "function has references" in await box.fails("box.func.words:drop()")
        await box("box.space._func_index:delete{s.id, i.id}")
        text = "Index 'words' (TREE) of space 's' (memtx) does not support %s"
        assert await box.fails("i:select()") == text % "read view"
        assert await box.fails("i:len()") == text % "size()"
        await box("s:insert{2, 'pear'} s:truncate() s:insert{3, 'plum'}")
        assert await box.fails("i:count()") == text % "read view"
        missing = "box.space._func_index:insert{s.id, i.id, 7777}"
        assert await box.fails(missing) == "Function '7777' does not exist"
        await box("box.space._func_index:insert{s.id, i.id, box.func.words.id}")
        assert await box("return ids(i:select())") == [3]
        assert await box.fails("box.space._func_index:replace{s.id, i.id, box.func.words.id}") == (
            "functional index does not support alter"
        )
        await box("i:drop() box.func.words:drop()")

    run(body)


@pytest.mark.parametrize("snapshot", [False, True])
def test_after_a_restart(run: Run, tmp_path: Path, snapshot: bool) -> None:
    """After a restart the index works, though `_index` is loaded before `_func`."""

    async def write(box: Box) -> None:
        await box(PREPARE + WORDS + " s:insert{1, 'a fig'} s:insert{2, 'A pear'}")
        if snapshot:
            await box("box.snapshot()")
        await box("s:replace{3, 'fig'} s:delete(2)")

    async def read(box: Box) -> None:
        await box("s = box.space.s i = s.index.words")
        assert await box("local t = i:select() return t[1][1], t[2][1], t[3][1], #t") == [1, 1, 3, 3]
        await box("s:update(3, {{'=', 2, 'apple'}})")
        assert await box("return i:select('fig')[1][1], i:len()") == [1, 3]

    run(write, tmp_path, wal_mode="write")
    run(read, tmp_path, wal_mode="write")


def test_without_its_function_and_with_versions(run: Run, tmp_path: Path) -> None:
    """With MVCC, too, a space with an unusable index takes changes, and starts with them."""

    async def write(box: Box) -> None:
        await box(PREPARE + WORDS + " s:insert{1, 'a fig'} box.space._func_index:delete{s.id, i.id}")
        await box("s:replace{2, 'x'} box.begin() s:insert{3, 'y'} s:replace{1, 'z'} s:delete(2) box.commit()")

    async def read(box: Box) -> None:
        assert await box("return box.space.s:count(), box.space.s:get(1)[2]") == [2, "z"]
        await box("box.space.s:insert{4, 'fig'}")

    run(write, tmp_path, wal_mode="write", memtx_use_mvcc_engine=True)
    run(read, tmp_path, wal_mode="write", memtx_use_mvcc_engine=True)


def test_with_versions_of_tuples(run: Run) -> None:
    """With MVCC a transaction sees its own keys, and others see them after its commit."""

    async def body(box: Box) -> None:
        await box(PREPARE + WORDS + " s:insert{1, 'fig pear'}")
        await box("""
            fiber = require('fiber')
            box.begin()
            s:replace{1, 'pear plum'}
            own = ids(i:select())
            other = fiber.new(function() return i:len(), i:count('fig'), i:count('plum') end)
            other:set_joinable(true)
            seen = {other:join()}
            box.commit()
        """)
        assert await box("return own") == [1, 1]
        assert await box("return seen") == [True, 2, 1, 0]
        assert await box("return i:len(), i:count('fig'), i:count('plum')") == [2, 0, 1]

    run(body, memtx_use_mvcc_engine=True)


def test_nils_and_equal_keys_in_a_unique_index(run: Run) -> None:
    """A unique index with nullable parts always compares the primary key, as in Tarantool 2.8; without them keys are
    unique.
    """

    async def body(box: Box) -> None:
        await box(PREPARE)
        await box("define('size', 'function(t) return {#t[2]} end')")
        await box("s:create_index('strict', {func = 'size', parts = {{1, 'unsigned'}}})")
        await box("s:insert{1, 'fig'}")
        assert 'Duplicate key exists in unique index "strict"' in await box.fails("s:insert{2, 'egg'}")
        await box("s.index.strict:drop()")
        await box("i = s:create_index('loose', {func = 'size', parts = {{1, 'unsigned', is_nullable = true}}})")
        await box("s:insert{2, 'egg'}")
        assert await box("return i:get(3)[1], i:len()") == [1, 2]
        assert await box("return i:delete(3)[1], i:get(3)[1]") == [1, 2]

    run(body)


def test_an_index_over_a_filled_space_enters_lua_once_for_many_tuples(run: Run) -> None:
    """The tuples of the space reach the function in slices. A failure names the same cause as that of a single call,
    and leaves no index.
    """

    async def body(box: Box) -> None:
        await box(PREPARE + "for i = 1, 300 do s:insert{i, 'fig ' .. i} end")
        schema = box.instance.node.schema
        singly, together = schema.call_function, schema.call_function_for
        assert singly is not None
        assert together is not None
        calls: list[int] = []
        schema.call_function = lambda *args: (calls.append(1), singly(*args))[1]
        schema.call_function_for = lambda *args: (calls.append(len(args[1])), together(*args))[1]
        await box(WORDS)
        assert await box("return i:len(), i:count('fig')") == [300, 300]
        assert len(calls) <= 2 * 300 / 64 + 2
        assert sum(calls) >= 300
        await box("i:drop()")
        await box("define('wrong', [[function(t) return t[1] == 200 and {1} or {t[2]} end]])")
        options = "{func = 'wrong', unique = false, parts = {{1, 'string'}}}"
        assert (await box.fails(f"s:create_index('i', {options})")).endswith(
            "key does not follow functional index definition"
        )
        await box("define('raises', [[function(t) return t[1] == 200 and t.x.y or {t[2]} end]])")
        options = options.replace("wrong", "raises")
        cause = f"local ok, e = pcall(s.create_index, s, 'i', {options}) return ok, e.prev.message"
        assert "attempt to index field 'x' (a nil value)" in (await box(cause))[1]
        assert await box("return s.index.i == nil") is True

    run(body)


def test_a_run_of_another_instance_enters_lua_once_for_many_tuples(run: Run) -> None:
    """The tuples of a run reach the function together. The first one for which it fails ends the run; those before it
    are stored.
    """

    async def body(box: Box) -> None:
        await box(PREPARE + WORDS)
        node = box.instance.node
        schema, together, calls = node.schema, node.schema.call_function_for, []
        assert together is not None
        schema.call_function_for = lambda *args: (calls.append(len(args[1])), together(*args))[1]
        space = await box("return s.id")

        def changed(rows: list[list[object]]) -> int:
            bodies = [Request.replace(pack(row)).body(space) for row in rows]
            return len(change_rows(schema, node.dml._planner, [REPLACE] * len(rows), bodies))

        assert changed([[number, f"fig {number}"] for number in range(129)]) == 129
        assert calls == [64, 64]
        assert changed([[number, 5 if number == 140 else "pear"] for number in range(120, 150)]) == 20
        assert await box("return s:len(), i:count('pear'), i:count('fig')") == [140, 20, 120]
        await box("i:drop()")
        await box("define('raises', [[function(t) return t[1] == 207 and t.x.y or {t[2]} end]])")
        await box("s:create_index('raises', {func = 'raises', unique = false, parts = {{1, 'string'}}})")
        assert changed([[number, "plum"] for number in range(200, 220)]) == 7
        assert await box("return s:len(), s.index.raises:count('plum')") == [147, 7]

    run(body)
