"""Errors, tuples, sessions, information and control of the instance."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from box.embed import LuaInstance

from .box_support import Box, Run


def test_errors(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box.fails("box.error(box.error.NO_SUCH_SPACE, 'x')") == "Space 'x' does not exist"
        assert await box.fails("box.error{code = 5, reason = 'why'}") == "why"
        codes = "2^32 + 5, 2^32, 2^31 + 5, -2^40 + 3, 2^53, 1/0, 5.7, -1, 5ULL, -1LL, '4294967301'"
        assert await box(
            f"c = {{{codes}}} for i, code in ipairs(c) do c[i] = box.error.new{{code = code}}.code end return c"
        ) == [5, 0, -(2**31) + 5, 3, 0, 0, 5, -1, 0, 0, 5]
        assert await box.fails("box.error('MyType', 'because of %d', 5)") == "because of 5"
        # Releases of LuaJIT describe the argument differently.
        missing = await box.fails("box.error.new(3, 'x')")
        assert re.fullmatch(r"bad argument #[23] to '\?' \((no value|value expected)\)", missing)
        wrong = await box.fails("box.error('MyType', '%d', 'x')")
        assert wrong == "bad argument #2 to '?' (number expected, got string)"
        assert await box.fails("box.error({})") == ""
        assert await box.fails("box.error(function() end)") == "test:1: box.error(): bad arguments"
        await box("e = box.error.new('MyType', 'text') ok, caught = pcall(box.error, e)")
        assert await box("return e.type, e.base_type, e.code, caught == e, box.error.last() == e") == [
            "MyType",
            "CustomError",
            0,
            True,
            True,
        ]
        assert await box("box.error.clear() return box.error.last()") is None
        await box("pcall(box.space._space.insert, box.space._space, {})")
        assert await box("return box.error.last().code == box.error.FIELD_MISSING, pcall(box.error)") == [
            True,
            False,
            "Tuple field 1 (id) required by space format is missing",
        ]
        assert "Usage: box.error.new(code, args)" in await box.fails("box.error.new()")

    run(body)


def test_injected_failures_of_spaces(run: Run) -> None:
    """Injected failures to allocate tuples and to build an index leave everything as before."""

    async def body(box: Box) -> None:
        await box("i = box.error.injection s = box.schema.space.create('s') s:create_index('pk') s:insert{1, 10}")
        await box("q = box.schema.space.create('q', {is_local = true}) q:create_index('pk') q:insert{1}")
        await box("i.set('ERRINJ_TUPLE_ALLOC', true)")
        for write in ("s:insert{2}", "s:update(1, {{'=', 2, 1}})", "s:upsert({1}, {{'=', 2, 1}})", "q:replace{2}"):
            message = await box.fails(write)
            assert message.startswith("Failed to allocate ")
            assert message.endswith(" bytes in slab allocator for memtx_tuple")
        assert await box("local ok, e = pcall(s.insert, s, {2}) return e.type") == "OutOfMemory"
        await box("s:delete{7} i.set('ERRINJ_TUPLE_ALLOC', false)")
        assert await box("s:insert{2, 20} return s:select(), q:select()") == [[[1, 10], [2, 20]], [[1]]]
        await box("i.set('ERRINJ_BUILD_INDEX', 1)")
        assert await box.fails("s:create_index('second', {parts = {2}})") == "Error injection 'build index'"
        assert await box("return s.index.second == nil, q:create_index('second', {id = 2}).id") == [True, 2]
        await box("i.set('ERRINJ_BUILD_INDEX', -1)")
        assert await box("return s:create_index('second', {parts = {2}}):min()") == [1, 10]

    run(body)


def test_error_injections(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("i = box.error.injection")
        assert await box("return i.set('ERRINJ_WAL_DELAY_COUNTDOWN', 3), i.get('ERRINJ_WAL_DELAY_COUNTDOWN')") == [
            "ok",
            3,
        ]
        assert await box("return i.set('ERRINJ_NOPE', 1)") == "error: can't find error injection 'ERRINJ_NOPE'"
        assert await box("return i.info().ERRINJ_WAL_IO") == {"state": False}

    run(body)


def test_tuples(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("new = box.tuple.new t = new{1, 'a', {x = {5, 6}}}")
        assert await box("return new(1, 2), new(), new{}, new('x'), new(t) == t") == [[1, 2], [], [], ["x"], False]
        assert await box("return box.tuple.is(t), box.tuple.is{}, #t, t:bsize(), t[2], t[9]") == [
            True,
            False,
            3,
            len(b"\x93\x01\xa1a\x81\xa1x\x92\x05\x06"),
            "a",
            None,
        ]
        assert await box("return t['[3].x[2]'], t['[3][\"x\"][1]'], t['[3].y'], t.nope") == [6, 5, None, None]
        assert await box("return t:unpack(1, 2)") == [1, "a"]
        assert await box("return t:totable(2, 2), t:slice(0, 2)") == [["a"], 1, "a"]
        assert await box("return t:update{{'=', 2, 'b'}}, t:upsert{{'+', 1, 1}, {'+', 2, 1}}") == [
            [1, "b", {"x": [5, 6]}],
            [2, "a", {"x": [5, 6]}],
        ]
        assert await box("return new{1, 2, 3, 2}:find(2), new{1, 2, 3, 2}:findall(2)") == [2, [2, 4]]
        assert await box("return new{1, 2, 3}:transform(2, 1, 'x', 'y'), new{1}:transform(5, 1, 2)") == [
            [1, "x", "y", 3],
            [1, 2],
        ]
        assert await box.fails("new{a = 1}") == "Tuple/Key must be MsgPack array"
        assert await box.fails("new{1}:slice()") == "test:1: tuple.slice(): bad arguments"
        assert await box.fails("new{1}:transform(0, 1)") == "test:1: tuple.transform(): offset is out of bound"
        assert "Usage: tuple:bsize()" in await box.fails("box.tuple.bsize()")
        assert await box("local n = 0 for i, v in t:pairs() do n = n + i end return n") == 6

    run(body)


def test_sessions(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("box.session.storage.x = 5")
        assert await box(
            "return box.session.storage.x, box.session.exists(box.session.id()), box.session.exists(1e6)"
        ) == [
            5,
            True,
            False,
        ]
        assert await box("return box.session.type(), box.session.fd(), box.session.peer(), box.session.sync()") == [
            "background",
            -1,
            None,
            0,
        ]
        await box("box.session.settings.sql_default_engine = 'vinyl'")
        assert await box("return box.session.settings.sql_default_engine") == "vinyl"
        assert await box.fails("box.session.settings.nope = 1") == "Session setting nope doesn't exist"
        assert await box.fails("box.session.settings.sql_default_engine = 1") == (
            "Session setting sql_default_engine expected a value of type string"
        )
        assert await box("local ok, err = box.session.push(1) return ok, err.code == box.error.UNSUPPORTED") == [
            None,
            True,
        ]
        await box("f = function() end box.session.on_connect(f)")
        assert await box(
            "return #box.session.on_connect(), box.session.on_connect(nil, f), #box.session.on_connect()"
        ) == [
            1,
            None,
            0,
        ]

    run(body)


def test_statistics_of_what_is_not_here(run: Run) -> None:
    """box.stat.vinyl and box.stat.sql have their fields, which programs that gather metrics read."""

    async def body(box: Box) -> None:
        vinyl = await box("return box.stat.vinyl()")
        assert {name: len(section) for name, section in vinyl.items()} == {
            "tx": 7, "memory": 5, "disk": 3, "scheduler": 11, "regulator": 4,
        }  # fmt: skip
        assert vinyl["regulator"] == {
            "write_rate": 0, "dump_bandwidth": 10485760, "rate_limit": 10485760, "dump_watermark": 134217715,
        }  # fmt: skip
        assert {value for name in ("tx", "memory", "disk", "scheduler") for value in vinyl[name].values()} == {0}
        assert await box("return box.info.vinyl().disk.data, box.stat.sql().sql_search_count") == [0, 0]

    run(body)


def test_info_and_statistics(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('a') s:create_index('pk') s:insert{1} for i = 1, 10 do s:get(1) end")
        assert await box("return box.info.version, box.info.id, box.info.ro, box.info.status, box.info.nope") == [
            "2.8.1-0-g0000000",
            1,
            False,
            "running",
            None,
        ]
        assert await box("return box.info.lsn == box.info.vclock[1], box.info.lsn == box.info.signature") == [
            True,
            True,
        ]
        assert await box("return box.info.replication[1].uuid == box.info.uuid, box.info.server.id") == [True, 1]
        names = await box("local names = {} for name in pairs(box.info()) do names[#names + 1] = name end return names")
        assert set(names) >= {"id", "uuid", "lsn", "vclock", "gc", "memory", "synchro", "election", "replication_anon"}
        assert await box("return box.info.gc().checkpoints[1].signature, box.info.memory().data > 0") == [0, True]
        before = await box("return box.stat().SELECT.total, box.stat.INSERT.total")
        await box("for i = 1, 10 do s:get(1) end s:insert{2}")
        after = await box("return box.stat().SELECT.total, box.stat.INSERT.total")
        assert [after[0] - before[0], after[1] - before[1]] == [10, 1]
        assert await box("box.stat.reset() return box.stat.INSERT.total, box.stat.nope, box.stat.net.SENT.total") == [
            0,
            None,
            0,
        ]
        assert await box("return box.slab.info().quota_size, box.slab.check(), box.runtime.info().maxalloc > 0") == [
            268435456,
            None,
            True,
        ]

    run(body)


def test_snapshot_and_backup(run: Run, tmp_path: Path) -> None:
    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('a') s:create_index('pk') s:insert{1}")
        assert await box("return box.snapshot()") == "ok"
        files = await box("return box.backup.start()")
        assert [Path(file).name for file in files] == [f"{await box('return box.info.lsn'):020}.snap"]
        assert await box.fails("box.backup.start()") == "Backup is already in progress"
        assert await box.raw("box.backup.stop()") == []
        assert await box.fails("box.backup.start(-1)") == "test:1: invalid checkpoint index"

    run(body, tmp_path, wal_mode="write")


def test_waiting_for_a_mode(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box.raw("box.ctl.wait_rw()") == []
        assert await box.fails("box.ctl.wait_ro(0)") == "timed out"
        await box("fiber = require('fiber') f = fiber.new(box.ctl.wait_ro) f:set_joinable(true) fiber.yield()")
        assert await box("box.cfg{read_only = true} return f:join()") is True
        assert await box("return box.ctl.is_recovery_finished()") is True

    run(body)


def test_whoever_waits_for_a_mode_runs_at_the_next_yield(run: Run) -> None:
    """A fiber that waits for a mode runs while the fiber that has changed it yields once."""

    async def body(box: Box) -> None:
        await box("""
            fiber, seen = require('fiber'), {}
            fiber.create(function()
                box.ctl.wait_ro() seen[1] = 'ro'
                box.ctl.wait_rw() seen[2] = 'rw'
            end)
            fiber.yield()
        """)
        assert await box("box.cfg{read_only = true} fiber.yield() return seen[1]") == "ro"
        assert await box("box.cfg{read_only = false} fiber.yield() return seen[2]") == "rw"
        assert await box.fails("box.ctl.wait_ro(0.001)") == "timed out"

    run(body)


def test_calls_of_the_protocol(run: Run) -> None:
    """`node.functions` runs CALL and EVAL requests."""

    async def body(box: Box) -> None:
        from box.data import codec
        from box.session import Context

        node = box.instance.node

        async def ended(run: Callable[..., None], *arguments: Any) -> Any:
            future = asyncio.get_running_loop().create_future()
            run(*arguments, future.set_result)
            return codec.unpack(await future)

        await box("m = {o = {f = function(self, x) return self == m.o, x end}} box.schema.user.create('joe')")
        admin = node.new_context()
        args = codec.pack([5])
        assert await ended(node.functions.call, admin, "m.o:f", args) == [True, 5]
        assert await ended(node.functions.eval, node.new_context(), "return box.session.user(), ...", args) == [
            "admin",
            5,
        ]
        await box(
            "box.schema.func.create('secret', "
            "{body = 'function() return box.session.effective_user() end', setuid = true})"
        )
        joe = Context(node.sessions.open("binary", node.schema.user_by_name("joe").credentials))
        box.ctx = joe
        assert (
            await box.fails("box.schema.func.call('secret')")
            == "Execute access to function 'secret' is denied for user 'joe'"
        )
        box.ctx = admin
        await box("box.schema.user.grant('joe', 'execute', 'function', 'secret')")
        assert await ended(node.functions.call, Context(joe.session), "secret", b"\x90") == ["admin"]
        box.ctx = joe
        assert await box("return box.func.secret:call(), box.session.effective_user()") == ["admin", "joe"]

    run(body)


def test_formats_of_dropped_spaces_do_not_add_up(run: Run) -> None:
    """Tuples of a recently dropped space keep the names of their fields, also if the space is created again."""

    async def body(box: Box) -> None:
        await box("""
            tuples = require('internal.tuple')
            function make(id)
                local s = box.schema.space.create('s', {id = id, format = {{'a', 'unsigned'}}})
                s:create_index('pk')
                return s:insert{1}
            end
            first, kept = make(600), {}
            box.space.s:drop()
            make(700) box.space.s:drop() again = make(700) box.space.s:rename('again')
        """)
        assert await box("return first.a, tuples.format(600) ~= nil") == [1, True]
        await box("for id = 1000, 1299 do kept[id] = make(id) box.space.s:drop() end")
        assert await box("return kept[1299].a, kept[1200].a, again.a") == [1, 1, 1]
        assert await box("""
            local count = 0
            for id = 600, 1299 do count = count + (tuples.format(id) and 1 or 0) end
            return count, tuples.format(600)
        """) == [129, None]

    run(body)


def test_a_connection_whose_end_is_noticed_behind_that_of_lua() -> None:
    """A connection that closes while Lua ends causes no error; before, a signal during a start left one in the log."""

    async def body() -> None:
        instance = LuaInstance()
        sessions = instance.node.sessions
        session = sessions.open("binary", instance.node.schema.guest)
        await instance.stop()
        await sessions.close(session)
        assert session.id not in sessions.by_id

    asyncio.run(body())


def test_client_errors_are_counted_once_each(run: Run) -> None:
    """`box.stat().ERROR` counts the client errors that are made, whoever makes them; others do not count."""

    async def body(box: Box) -> None:
        await box(
            """s = box.schema.space.create('s') s:create_index('pk')
            function counted(f, ...)
                local before = box.stat().ERROR.total
                pcall(f, ...)
                return box.stat().ERROR.total - before
            end"""
        )
        for call, count in (
            ("box.error, 1, 'x'", 1),
            ("box.error.new, 1, 'x'", 1),
            ("error, 'x'", 0),
            ("s.insert, s, {'x'}", 1),
            ("s.insert, s, 1", 1),
            ("require('fio').open, '/nope/nope'", 0),
            ("box.schema.space.create, 's'", 1),
        ):
            assert await box(f"return counted({call})") == count, call

    run(body)


def test_the_quota_is_in_whole_units(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box("return box.slab.info().quota_size % 1024") == 0

    run(body)


def test_an_upgrade_without_a_version(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("version = box.space._schema:delete('version')")
        assert (await box.fails("box.schema.upgrade()")).endswith('Missing "version" in box.space._schema')
        await box("box.space._schema:insert(version) box.schema.upgrade()")

    run(body)


def test_feedback_is_saved_to_a_path(run: Run) -> None:
    """A wrong path is refused as in Tarantool, although nothing is saved."""

    async def body(box: Box) -> None:
        for wrong in ("", "1", "{}"):
            assert (await box.fails(f"box.feedback.save({wrong})")).endswith(": Usage: box.feedback.save(path)")
        assert await box("return box.feedback.save('report.json')") is None

    run(body)
