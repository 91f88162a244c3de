"""Spaces and indexes as Lua objects: reads, writes, iteration."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from test.support import until

from .box_support import DEADLINE, Box, Run

CREATE = """
    s = box.schema.space.create('test', {format = {{'id', 'unsigned'}, {'name', 'string', is_nullable = true}}})
    pk = s:create_index('pk')
    sk = s:create_index('sk', {parts = {{'name', is_nullable = true}}, unique = false})
"""


def test_reads_and_writes(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE)
        assert await box("return s:insert{1, 'a'}, s:replace{2, 'b'}, s:put{2, 'c'}") == [[1, "a"], [2, "b"], [2, "c"]]
        assert await box("return s:get(1), s:get{1}, s:get(box.tuple.new{2}), s:get(1ULL)") == [
            [1, "a"],
            [1, "a"],
            [2, "c"],
            [1, "a"],
        ]
        assert await box.raw("return s:get(5)") == []
        assert await box("return s:update(1, {{'=', 'name', 'z'}}), s:get(1).name") == [[1, "z"], "z"]
        assert await box.raw("return s:upsert({3, 'n'}, {{'=', 2, 'm'}})") == []
        assert await box("s:upsert({3, 'n'}, {{'=', 2, 'm'}}) return s:get(3)") == [3, "m"]
        assert await box("return s:delete(3)") == [3, "m"]
        assert await box.raw("return s:delete(3)") == []
        assert await box("return s:len(), s:count(), s:count(1, 'GT'), pk:len()") == [2, 2, 1, 2]
        assert await box("return pk:min(), pk:max(), sk:select('c'), pk:random(1) ~= nil") == [
            [1, "z"],
            [2, "c"],
            [[2, "c"]],
            True,
        ]
        assert await box("return s:auto_increment{'auto'}") == [3, "auto"]

    run(body)


def test_string_and_composite_keys(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("""
            t = box.schema.space.create('t')
            t:create_index('pk', {parts = {{1, 'string'}}})
            t:create_index('two', {parts = {{2, 'unsigned'}, {3, 'integer'}}, type = 'hash'})
            t:insert{'ключ', 1, -1}
        """)
        assert await box("return t:get('ключ'), t:get('no') == nil, t.index.two:get{1, -1}") == [
            ["ключ", 1, -1],
            True,
            ["ключ", 1, -1],
        ]
        assert "expected string" in await box.fails("return t:get(5)")
        assert "expected 2, got 1" in await box.fails("return t.index.two:get(1)")

    run(body)


def test_a_get_follows_changes_of_the_space(run: Run) -> None:
    """`get` works after each change of the space: its fast path ends with the index that it uses."""

    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('s') s:create_index('pk') s:insert{1, 'a'} s:get(1) s:get(1)")
        assert await box("return s:get(1), s.index.pk:get(1)") == [[1, "a"], [1, "a"]]
        await box("s.index.pk:drop()")
        assert await box.fails("s:get(1)") == "No index #0 is defined in space 's'"
        await box("s:create_index('by_text', {parts = {2, 'string'}}) s:insert{2, 'b'}")
        assert (
            await box.fails("s:get(1)") == "Supplied key type of part 0 does not match index part type: expected string"
        )
        assert await box("return s:get('b'), s:get('b')") == [[2, "b"], [2, "b"]]
        await box("s.index.by_text:alter{parts = {1, 'unsigned'}}")
        assert await box("return s:get(2), s:get(2)") == [[2, "b"], [2, "b"]]
        await box("old = s s:drop()")
        assert await box.fails("old:get(2)") == "No index #0 is defined in space 's'"
        await box("s = box.schema.space.create('s', {id = 512}) s:create_index('pk') s:insert{2, 'c'} s:get(2)")
        assert await box("return s:get(2)") == [2, "c"]

    run(body)


def test_messages_of_wrong_calls(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "s:insert{1}")
        assert "Use space:insert(...) instead of space.insert(...)" in await box.fails("s.insert{1}")
        assert "Use index:get(...) instead of index.get(...)" in await box.fails("pk.get(1)")
        assert await box.fails("s:insert(5)") == "Tuple/Key must be MsgPack array"
        assert await box.fails("s:insert{a = 1}") == "Tuple/Key must be MsgPack array"
        assert await box.fails("s:insert()") == "Tuple/Key must be MsgPack array"
        assert await box.fails("s:get{a = 1}") == "Invalid key part count in an exact match (expected 1, got 0)"
        assert await box.fails("s:update(1)") == "test:1: Usage index:update(key, ops)"
        for arguments in ("{1}", "'x', {}", "nil, {}", "{1}, 'x'", ""):
            assert await box.fails(f"s:upsert({arguments})") == "test:1: Usage space:upsert(tuple_key, ops)"
        assert await box.fails("s:select(1, {iterator = 'XX'})") == "Unknown iterator type 'XX'"
        assert await box.fails("sk:get('a')") == "Get() doesn't support partial keys and non-unique indexes"
        assert "expected unsigned" in await box.fails("return s:get(-1)")
        assert "expected unsigned" in await box.fails("return s:get(1.5)")

    run(body)


def test_select_options(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "for i = 1, 10 do s:insert{i} end")
        assert await box("return s:select({}, {limit = 2, offset = 3})") == [[4], [5]]
        assert await box("return s:select(3, {iterator = 'LT'})") == [[2], [1]]
        assert await box("return s:select(9, 'GE')") == [[9], [10]]
        assert await box("return s:select(9, {iterator = box.index.GT})") == [[10]]
        assert await box("return #s:select()") == 10

    run(body)


def test_a_loop_sees_the_index_as_it_is_at_each_step(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "for i = 1, 100 do s:insert{i} end")
        await box("""
            fiber = require('fiber')
            function walk(on_step, ...)
                local seen = {}
                for _, tuple in s:pairs(...) do
                    seen[#seen + 1] = tuple[1]
                    on_step(tuple[1])
                end
                return seen
            end
        """)
        forward = "return walk(function(i) if i == 20 then s:delete(21) s:insert{200} end end)"
        assert await box(forward) == [*range(1, 21), *range(22, 101), 200]
        backward = "return walk(function(i) if i == 90 then s:delete(89) end end, nil, {iterator = 'LE'})"
        assert await box(backward) == [200, *range(100, 89, -1), *range(88, 21, -1), *range(20, 0, -1)]
        others = """
            return walk(function(i)
                if i == 10 then
                    fiber.create(function() fiber.yield() s:delete(11) end)
                    fiber.yield()
                    fiber.yield()
                end
            end, 12, 'LE')
        """
        assert await box(others) == [12, *range(11, 0, -1)]
        left = [*range(1, 11), *range(12, 21), *range(22, 89), *range(90, 101), 200]
        assert await box("return walk(function(i) s:delete(i) end)") == left
        assert await box("return s:len()") == 0

    run(body)


def test_transactions(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "s:insert{1, 'a'}")
        await box("box.begin() s:replace{1, 'b'} sp = box.savepoint() s:replace{1, 'c'} s:insert{2}")
        assert await box("return box.is_in_txn()") is True
        await box("box.rollback_to_savepoint(sp)")
        assert await box("local r = {s:get(1), s:get(2)} box.commit() return r, box.is_in_txn()") == [[[1, "b"]], False]
        assert await box.fails("box.rollback_to_savepoint(sp)") == (
            "Can not rollback to savepoint: the savepoint does not exist"
        )
        assert await box.fails("box.rollback_to_savepoint({})") == "test:1: Usage: box.rollback_to_savepoint(savepoint)"
        assert await box("return box.atomic(function(x) s:insert{5} return x, 2 end, 1)") == [1, 2]
        assert "boom" in await box.fails("box.atomic(function() s:insert{6} error('boom') end)")
        assert await box("return s:get(5), s:get(6) == nil, box.is_in_txn()") == [[5], True, False]
        assert await box.raw("box.commit() box.rollback()") == []
        assert await box.fails("box.savepoint()") == "No active transaction"

    run(body)


def test_a_switch_of_fibers_dooms_a_transaction(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "s:insert{1, 'a'}")
        message = await box.fails("box.begin() s:replace{1, 'b'} require('fiber').yield() box.commit()")
        assert message == "Transaction has been aborted by a fiber yield"
        # A read with a wrong key is none.
        for read in ("s.get, s", "s.select, s", "s.count, s", "s.index.pk.min, s.index.pk"):
            await box(f"box.begin() pcall({read}, 'wrong') require('fiber').yield() box.commit()")
        assert await box("return s:get(1), box.is_in_txn()") == [[1, "a"], False]

    run(body)


def test_a_doomed_transaction_is_alone_with_its_changes(run: Run) -> None:
    """Other fibers never see changes of an aborted transaction or meet its keys: each yield undoes what came before."""

    async def body(box: Box) -> None:
        await box(
            CREATE
            + """
            local fiber = require('fiber')
            doomed = fiber.new(function()
                box.begin()
                for key = 1, 3 do s:insert{key} fiber.yield() end
                return box.commit()
            end)
            doomed:set_joinable(true)
            seen = {}
            for key = 1, 4 do
                fiber.yield()
                table.insert(seen, #s:select())
            end
            """
        )
        assert await box("return seen") == [0, 0, 0, 0]
        assert await box("return s:insert{2}") == [2]
        assert await box("local ok, problem = doomed:join() return ok, problem.message") == [
            False,
            "Transaction has been aborted by a fiber yield",
        ]
        assert await box("return s:select()") == [[2]]

    run(body)


def test_a_part_that_excludes_nils(run: Run) -> None:
    """With exclude_null a tuple with nil in the part is missing in that index alone, however the index was filled.

    It may be filled by writes, by its creation, or from a snapshot. An absent field is no nil.
    """

    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('s') s:create_index('pk')")
        await box("s:insert{1, box.NULL} s:insert{2, 5} s:insert{3}")
        await box("s:create_index('sk', {parts = {{2, 'unsigned', exclude_null = true}}})")
        assert await box("return s.index.sk:select(), s.index.sk:len()") == [[[3], [2, 5]], 2]
        await box("s:insert{4, box.NULL} s:update(1, {{'=', 2, 7}}) s:update(2, {{'=', 2, box.NULL}})")
        assert await box("return s.index.sk:select()") == [[3], [1, 7]]
        assert "Duplicate key" in await box.fails("s:insert{5, 7}")
        await box("box.snapshot()")

    run(body)


def test_triggers_of_transactions(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE)
        committed = """
            local log = {}
            box.begin()
            box.on_commit(function(iterate)
                for number, old, new, space_id in iterate() do
                    log[#log + 1] = {number, old or 'none', new or 'none', space_id == s.id}
                end
            end)
            s:insert{1} s:delete(1)
            box.commit()
            return log
        """
        assert await box(committed) == [[1, "none", [1], True], [2, [1], "none", True]]
        rolled_back = "local n = 0 box.begin() box.on_rollback(function() n = n + 1 end) box.rollback() return n"
        assert await box(rolled_back) == 1
        assert "Usage inside a transaction: box.on_commit" in await box.fails("box.on_commit(function() end)")

    run(body)


@pytest.mark.parametrize("kind", ["commit", "rollback"])
def test_no_transaction_begins_in_a_trigger_of_one(run: Run, kind: str) -> None:
    """A trigger of a transaction cannot begin another one, which would stay open after the commit."""

    async def body(box: Box) -> None:
        await box(CREATE)
        source = f"""
            local log = {{}}
            box.begin()
            box.on_{kind}(function()
                log[#log + 1] = box.is_in_txn()
                log[#log + 1] = tostring(select(2, pcall(box.begin)))
                error('of a trigger')
            end)
            s:insert{{1}}
            box.{kind}()
            log[#log + 1] = box.is_in_txn()
            s:replace{{2}}
            box.begin() s:replace{{3}} box.commit()
            return log, box.is_in_txn(), s:count{{2}}, s:count{{3}}
        """
        text = "Operation is not permitted when there is an active transaction "
        assert await box(source) == [[True, text, False], False, 1, 1]

    run(body)


def test_triggers_of_spaces(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "log = {}")
        await box("""
            watcher = s:on_replace(function(old, new, name, op)
                log[#log + 1] = {old or 'none', new or 'none', name, op}
            end)
            s:insert{1, 'a'} s:replace{1, 'b'} s:update(1, {{'=', 2, 'c'}}) s:delete(1)
        """)
        assert await box("return log") == [
            ["none", [1, "a"], "test", "INSERT"],
            [[1, "a"], [1, "b"], "test", "REPLACE"],
            [[1, "b"], [1, "c"], "test", "UPDATE"],
            [[1, "c"], "none", "test", "DELETE"],
        ]
        assert await box("return #s:on_replace(), select('#', s:on_replace(nil, watcher)), #s:on_replace()") == [
            1,
            0,
            0,
        ]
        await box("change = s:before_replace(function(old, new) return new and new:update{{'=', 2, 'changed'}} end)")
        assert await box("return s:insert{2, 'sent'}") == [2, "changed"]
        await box("s:before_replace(function() return nil end, change)")
        assert await box.raw("return s:insert{3}, s:get(3)") == [None]
        assert await box.fails("s:before_replace(5)") == "test:1: trigger reset: incorrect arguments"
        assert await box.fails("s:before_replace(nil, change)") == "test:1: trigger reset: Trigger is not found"

    run(body)


def test_a_trigger_that_waits_ends_the_transaction(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "s:on_replace(function() require('fiber').yield() end)")
        assert await box.fails("s:insert{1}") == "Transaction has been aborted by a fiber yield"
        assert await box("return s:len()") == 0

    run(body)


def test_failed_writes_are_undone(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "s:insert{1, 'a'} box.error.injection.set('ERRINJ_WAL_IO', true)")
        assert await box.fails("s:replace{1, 'b'}") == "Failed to write to disk"
        assert await box.fails("box.schema.space.create('ghost')") == "Failed to write to disk"
        await box("box.error.injection.set('ERRINJ_WAL_IO', false)")
        assert await box("return s:get(1), box.space.ghost == nil, box.error.last().message") == [
            [1, "a"],
            True,
            "Failed to write to disk",
        ]

    run(body, wal_mode="write")


def test_writes_wait_for_the_log(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "fiber = require('fiber') box.error.injection.set('ERRINJ_WAL_DELAY', true)")
        await box("f = fiber.new(function() return s:insert{1} end) f:set_joinable(true) fiber.yield()")
        assert await box("return f:status(), s:get(1)") == ["suspended", [1]]
        assert await box("box.error.injection.set('ERRINJ_WAL_DELAY', false) return f:join()") == [True, [1]]

    run(body, wal_mode="write")


def test_versions_of_tuples(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "fiber = require('fiber') s:insert{1, 'a'}")
        seen = """
            box.begin()
            s:replace{1, 'b'}
            local other
            fiber.create(function() other = {s:get(1), s:pairs():totable()} end)
            fiber.yield()
            local own = s:get(1)
            box.commit()
            return own, other
        """
        assert await box(seen) == [[1, "b"], [[1, "a"], [[1, "a"]]]]

    run(body, memtx_use_mvcc_engine=True)


def test_frommap_and_formats(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE)
        assert await box("return s:frommap{id = 1, name = 'x'}, s:frommap({id = 2}, {table = true})") == [[1, "x"], [2]]
        assert await box("return s:frommap{id = 1, nope = 2}") == [None, "Unknown field 'nope'"]
        assert "field 1 (id)" in (await box("return s:frommap{name = 'x'}"))[1]
        assert "Usage: space:frommap(map, opts)" in await box.fails("s:frommap()")
        await box("s:insert{1, 'x'} t = s:get(1) s:format{{'key', 'unsigned'}, {'text', 'string', is_nullable = true}}")
        assert await box("return t.key, t.text, t.id == nil, s:get(1).text") == [1, "x", True, "x"]

    run(body)


def test_changed_tuples_fit_the_format(run: Run) -> None:
    """`tuple:update` keeps the format of the tuple's space, also after it was dropped; other tuples have none."""

    async def body(box: Box) -> None:
        await box(CREATE + "t = s:replace{1, 'x'}")
        wrong = "type does not match one required by operation: expected"
        key, name = f"Tuple field 1 (id) {wrong} unsigned, got string", f"Tuple field 2 (name) {wrong} string, got"
        for method in ("update", "upsert"):
            assert await box.fails(f"t:{method}{{{{'#', 1, 1}}}}") == key
            assert await box.fails(f"t:{method}{{{{'=', 2, 5}}}}") == f"{name} unsigned"
            assert await box.fails(f"t:{method}{{{{'=', 2, 'y'}}}}:update{{{{'=', 2, true}}}}") == f"{name} boolean"
        assert await box("return t:update{{'=', 'name', box.NULL}, {'!', 3, {}}}") == [1, None, []]
        assert await box("return box.tuple.new{1}:update{{'=', 1, 'x'}}") == ["x"]
        assert await box("return t:transform(1, 1)") == ["x"]
        assert await box("return t:transform(2, 1, nil, 5, nil)") == [1, None, 5, None]
        await box("s:drop()")
        assert await box.fails("t:update{{'=', 1, 'a'}}") == key
        assert await box("return t:update{{'=', 'name', 'z'}}") == [1, "z"]

    run(body)


def test_truncate_and_bsize(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE + "s:insert{1, 'abc'}")
        assert await box("return s:bsize(), s:get(1):bsize()") == [6, 6]
        assert await box("s:truncate() return s:len(), s:get(1) == nil") == [0, True]
        assert "Can't truncate a system space" in await box.fails("box.space._space:truncate()")

    run(body)


def test_keys_beyond_what_a_double_holds(run: Run) -> None:
    """Integer keys above 2^53 are exact: numbers cross to Python as doubles only where these are exact."""

    async def body(box: Box) -> None:
        await box(CREATE)
        await box("s:insert{18446744073709551615ULL, 'a'} s:insert{9007199254740993ULL, 'b'} s:insert{2^63, 'c'}")
        assert await box("return s:get(18446744073709551615ULL)[2], s:get(2^63)[2], s:get{2^63}[2]") == ["a", "c", "c"]
        assert await box("return s:update(9007199254740993ULL, {{'=', 2, 'x'}})[2]") == "x"
        assert await box("return s:update(2^63, {{'=', 2, 'y'}})[2], s:delete(2^63)[2]") == ["y", "y"]
        assert await box("return s:get(9007199254740992), (s:delete(2^53))") == [None, None]

    run(body)


def test_equality_of_tuples(run: Run) -> None:
    """Two reads of a stored tuple are equal; tuples that were made apart differ even if their contents are equal."""

    async def body(box: Box) -> None:
        await box(CREATE)
        assert await box("s:insert{1, 'a'} return s:get(1) == s:get(1), s:get(1) ~= s:get(1)") == [True, False]
        unlike = "s:get(1) == box.tuple.new{1, 'a'}, box.tuple.new{1} == box.tuple.new{1}"
        assert await box(f"return {unlike}") == [False, False]
        assert await box("local t = s:get(1) return t == nil, t == box.NULL, t == 'x', t == 1ULL") == [False] * 4
        text = await box.fails("return s:get(1) == {1, 'a'}")
        assert re.fullmatch(r"builtin/\S*tuple\.lua:\d+: cannot convert 'table' to 'void \*'", text)

    run(body)


def test_upsert_checks_in_tarantools_order(run: Run) -> None:
    """Upsert checks the new tuple's fields and size first, used or not; then it applies operations, and skips those
    that fail.
    """

    async def body(box: Box) -> None:
        await box(CREATE)
        await box("s:insert{1, 'a'} long = string.rep('x', 2 * 1048576)")
        assert (await box.fails("s:upsert({'a', long}, {{'=', 2, 'b'}})")).startswith("Tuple field 1 (id) type")
        assert (await box.fails("s:upsert({5, long}, {{'=', 2, 'b'}})")).startswith("Failed to allocate")
        assert await box("s:upsert({1, long}, {{'=', 2, 'b'}}) return s:get(1)") == [1, "b"]
        assert (await box.fails("s:upsert({1}, {{'=', 2, long}})")).startswith("Failed to allocate")
        assert (await box.fails("s:upsert({1}, {{'?', 2, 1}})")) == 'Unknown UPDATE operation #1: "?"'
        assert await box("s:upsert({1}, {{'+', 2, 1}, {'=', 3, 'c'}}) return s:get(1)") == [1, "b", "c"]

    run(body)


def test_a_finalizer_that_looks_up_leaves_the_look_up_around_it_alone(run: Run) -> None:
    """A finalizer that reads from an index during a read of it, when a copy starts the collector, does not change its
    result.
    """

    async def body(box: Box) -> None:
        await box(CREATE)
        assert await box("""
            local ffi = require('ffi')
            for i = 1, 100 do s:replace{i, ('x'):rep(i)} end
            local finalized, wrong = 0, 0
            local function look_up()
                finalized = finalized + 1
                s:get(finalized % 100 + 1)
            end
            for i = 1, 50000 do
                local key = i % 100 + 1
                if i % 10 == 0 then ffi.gc(ffi.new('char[10]'), look_up) end
                local tuple = i % 2 == 0 and s:get(key) or pk:get(key)
                if tuple.id ~= key or #tuple.name ~= key then wrong = wrong + 1 end
            end
            return wrong, finalized > 0
        """) == [0, True]

    run(body)


def test_a_write_ends_although_a_checkpoint_begins_in_the_same_round(run: Run) -> None:
    """A write ends though a checkpoint begins in the same round, and does not wait for it."""

    async def body(box: Box) -> None:
        written: list[bool] = []
        box.instance.runtime.bind("test_written", lambda: written.append(True))
        await box(CREATE)
        await box("""
            box.error.injection.set('ERRINJ_SNAP_WRITE_DELAY', true)
            require('fiber').new(function() s:replace{1} require('internal.python').test_written() end)
            snapshot = require('fiber').new(box.snapshot)
            snapshot:set_joinable(true)
        """)
        await until(lambda: written)  # nothing else may call into Lua: that alone would wake the fiber
        await box("box.error.injection.set('ERRINJ_SNAP_WRITE_DELAY', false) snapshot:join()")

    run(body, wal_mode="write")


def test_a_finalizer_writes_only_what_it_need_not_wait_for(run: Run, tmp_path: Path) -> None:
    """A finalizer may write to temporary spaces and in open transactions; a write to the journal is
    refused and undone.
    """

    async def body(box: Box) -> None:
        await box(CREATE)
        await box("box.schema.space.create('temporary', {temporary = true}):create_index('pk')")
        await box("""
            ffi, fiber = require('ffi'), require('fiber')
            function finalize(f)
                local outcome
                local function drop() ffi.gc(ffi.new('int[1]'), function() outcome = {pcall(f)} end) end
                drop()
                collectgarbage()
                return unpack(outcome)
            end
        """)
        assert await box("""
            local ok, problem = finalize(function() s:replace{1} end)
            return ok, tostring(problem), s:count()
        """) == [False, "a finalizer must not wait", 0]
        assert await box("return finalize(function() return box.space.temporary:replace{1}[1] end)") == [True, 1]
        assert await box("""
            box.begin()
            local ok = finalize(function() s:replace{2} end)
            box.commit()
            return ok, s:count()
        """) == [True, 1]
        assert (
            await box("""
            local done = fiber.channel(1)
            finalize(function() fiber.create(function() s:replace{3} done:put(true) end) end)
            done:get(5)
            return s:count()
        """)
            == 2
        )

    run(body, tmp_path, wal_mode="write")


def test_a_finalizer_outside_of_fibers_uses_the_data_as_admin(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE)
        await box("""
            s:replace{1, 'x'}
            seen = {}
            local function drop()
                require('ffi').gc(require('ffi').new('int[1]'), function()
                    seen = {s:get(1)[2], pk:get{1}[2], s:replace{2}[1], box.session.user(), box.is_in_txn()}
                end)
            end
            drop()
        """)
        box.instance.runtime._state.execute(b"collectgarbage()")
        async with asyncio.timeout(DEADLINE):
            while not (seen := await box("return unpack(seen)")):
                await asyncio.sleep(0)
        assert seen == ["x", "x", 2, "admin", False]

    run(body)
