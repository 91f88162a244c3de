"""Functions of a wave that wait, and then use their fiber, session or context, behave as on the general path.

Most functions that wait have no context of their own while they do, and Lua writes their replies (`box.call_wave`).
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgpack
import pytest
import uvloop

from box.embed import LuaInstance
from box.wire.constants import RequestType
from box.wire.row import Row, decode_row
from test.unit.boxlua.calls_support import Client, call, evaluate, general_path, numbered, shown

_SERVER = b"""
box.cfg{listen = '127.0.0.1:0', wal_mode = (...), memtx_use_mvcc_engine = false}
box.schema.user.grant('guest', 'super')
local fiber, fio = require('fiber'), require('fio')
local s = box.schema.space.create('s')
s:create_index('pk')
local watched = box.schema.space.create('watched')
watched:create_index('pk')
local seen = {}
watched:on_replace(function(_, new) seen[new[1]] = box.session.sync() fiber.id() end)
local slow = box.schema.space.create('slow')
slow:create_index('pk')
slow:before_replace(function(_, new) fiber.sleep(0) return new:update{{'=', 2, box.session.sync()}} end)
box.schema.user.create('poor')
box.schema.func.create('owned', {setuid = true})
function yields(x) fiber.yield() return x end
function goes_on(x) s:replace{x, 'first'} return x end
function session(x) s:replace{x} return box.session.sync(), box.session.user(), box.session.type() end
function owned(x) s:replace{x} return box.session.euid(), box.session.uid() end
function su(x) s:replace{x} return box.session.su('poor', box.session.euid), box.session.euid() end
function denied(x)
    return box.session.su('poor', function() fiber.yield() return pcall(s.replace, s, {x}) end), box.session.euid()
end
function transacts(x) s:replace{x} box.begin() s:replace{x, 2} box.commit() return s:get{x} end
function rolls_back(x) s:replace{x} box.begin() s:replace{x, 2} box.rollback() return s:get{x} end
function stays_open(x) s:replace{x} box.begin() s:replace{x, 'open'} return x end
function waits_open(x) box.begin() s:replace{x, 'open'} fiber.yield() return x end
function writes_thrice(x) for i = 1, 3 do s:replace{x, i} end return s:get{x}[2], s:select{x}[1][2], s:count{x} end
function watched_later(x) s:replace{x} watched:replace{x} return seen[x] end
function waits_in_trigger(x) local row = slow:replace{x} return row[2], slow:replace{x}[2], box.session.sync() end
function last_of_its_own(x) pcall(s.insert, s, {}) fiber.yield() return tostring(box.error.last()) end
function last_later(x) fiber.yield() pcall(s.insert, s, {}) return tostring(box.error.last()) end
function no_last(x) fiber.yield() return tostring(box.error.last()) end
function caught(x) return pcall(s.replace, s, {x}), tostring(box.error.last()), box.session.sync() end
function fails(x) s:replace{x} error('after ' .. x) end
function fails_with_object(x) s:replace{x} box.error{code = 1000 + x, reason = 'as you wish'} end
function is_refused(x) s:replace{x} s:insert{x} end
function no_file(x) local ok, problem = fio.open('/no/such/file', {'O_RDONLY'}) return ok, tostring(problem), x end
function pushes(x) s:replace{x} box.session.push({x}) return x end
function large(x) s:replace{x} return ('x'):rep(x) end
function nothing(x) s:replace{x} end
function many(x) s:replace{x} return x, nil, {x}, 'text', nil end
function too_odd(x) s:replace{x} return print end
function waits_in_serializer(x) return setmetatable({}, {__serialize = function() fiber.yield() return {x} end}) end
function writes_in_serializer(x)
    fiber.yield()
    return 1, setmetatable({}, {__serialize = function() s:replace{x} return {box.session.sync()} end})
end
function keeps(x) fiber.self().storage.x = x fiber.yield() return fiber.self().storage.x end
function cancels(x) fiber.yield() fiber.self():cancel() return pcall(fiber.testcancel) end
function is_cancelled(x)
    local me = fiber.self()
    fiber.new(function() me:cancel() end)
    s:replace{x}
    return pcall(fiber.testcancel)
end
function joins(x)
    local other = fiber.new(function() s:replace{x} return box.session.type() end)
    other:set_joinable(true)
    return other:join()
end
"""
_NAMES = (
    "yields goes_on session owned su denied transacts rolls_back stays_open waits_open writes_thrice watched_later "
    "waits_in_trigger last_of_its_own last_later no_last caught fails fails_with_object is_refused no_file pushes "
    "nothing many too_odd waits_in_serializer writes_in_serializer keeps cancels is_cancelled joins"
).split()


async def _replies(
    batches: list[list[Row]], wal_mode: str, directory: Path, before: str = ""
) -> tuple[list[bytes], dict[str, int]]:
    instance = LuaInstance(str(directory))
    try:
        await instance.runtime.eval(_SERVER + before.encode(), msgpack.packb([wal_mode]))
        client = await Client.connect(instance)
        packets = [packet for batch in batches for packet in await client.ask(batch)]
        client.close()
        totals = {name: counter["total"] for name, counter in instance.node.stats.show_box().items()}
        assert not instance.node.functions.wave._waves
        assert not instance.runtime.passing_contexts
        return packets, totals
    finally:
        await instance.stop()


def _both(
    batches: list[list[Row]], wal_mode: str, root: Path, monkeypatch: pytest.MonkeyPatch, before: str = ""
) -> list[Any]:
    """Return what the replies say, sorted, and the statistics: first those of waves, then those of the general path."""
    monkeypatch.chdir(root)
    found: list[Any] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for name, path in (("waves", nullcontext()), ("general", general_path(monkeypatch))):
            (root / name).mkdir()
            with path:
                packets, totals = runner.run(_replies(batches, wal_mode, root / name, before))
            found.append([*sorted(map(shown, packets)), totals])
    return found


@pytest.mark.parametrize("wal_mode", ["none", "write"])
@pytest.mark.parametrize("name", _NAMES)
def test_what_a_function_does_after_a_wait_is_what_it_does_on_the_general_path(
    name: str, wal_mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions of one kind among others, in one read of the server."""
    rows = [call(each, number) for number in range(1, 60, 3) for each in ("goes_on", name, "yields")]
    for number, row in enumerate(rows, 1):
        row.body = row.body.replace(msgpack.packb([(number - 1) // 3 * 3 + 1]), msgpack.packb([number + 200]))
    mine, other = _both([numbered(rows)], wal_mode, tmp_path, monkeypatch)
    assert mine == other


def test_functions_of_all_kinds_wait_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has the reply that it has on the general path."""
    rows = [call(name, 200 + number) for number, name in enumerate(_NAMES * 8)]
    mine, other = _both([numbered(rows)], "write", tmp_path, monkeypatch)
    assert mine == other


def test_a_failed_write_is_the_last_error_of_the_function_that_waited_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function goes on with its own context, which has the error."""
    names = [name for name in _NAMES if name not in ("waits_in_trigger", "pushes")]
    batches = [[row] for row in numbered([call(name, 200 + number) for number, name in enumerate(names)])]
    failing = "box.error.injection.set('ERRINJ_WAL_WRITE', true)"
    mine, other = _both(batches, "write", tmp_path, monkeypatch, failing)
    assert mine == other


@pytest.mark.parametrize("size", [70_000, 140_000, 300_000])
def test_large_results_of_functions_that_waited(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that the shared memory does not hold are sent as well, and smaller ones between them."""
    rows = [call("large" if number % 3 == 0 else "goes_on", size + number) for number in range(30)]
    mine, other = _both([numbered(rows)], "write", tmp_path, monkeypatch)
    assert mine == other


def test_replies_come_in_the_order_in_which_functions_end(tmp_path: Path) -> None:
    """Replies that Lua writes do not come after those of functions that end later and need Python for theirs, nor after
    what these push.
    """
    names = ["goes_on", "session", "goes_on", "fails", "goes_on", "goes_on"]
    rows = numbered([call(name, number) for number, name in enumerate(names)])
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    pushing = numbered([call("goes_on", 1), call("pushes", 2), call("goes_on", 3), call("pushes", 4)])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        packets, _ = runner.run(_replies([rows], "write", tmp_path / "a"))
        pushed, _ = runner.run(_replies([pushing], "write", tmp_path / "b"))
    assert [decode_row(packet).sync for packet in packets] == [1, 2, 3, 4, 5, 6]
    assert [(row.sync, row.type == RequestType.CHUNK) for row in map(decode_row, pushed)] == [
        (1, False),
        (2, True),
        (2, False),
        (3, False),
        (4, True),
        (4, False),
    ]


def test_clients_that_wait_at_once_get_their_own_replies(tmp_path: Path) -> None:
    """Replies of functions that end in one round go to the clients that have called them."""

    async def test() -> None:
        instance = LuaInstance(str(tmp_path))
        try:
            await instance.runtime.eval(_SERVER, msgpack.packb(["write"]))
            clients = [await Client.connect(instance) for _ in range(5)]
            asked = [
                client.ask(numbered([call("goes_on", 1000 * place + number) for number in range(100)]))
                for place, client in enumerate(clients)
            ]
            for place, packets in enumerate(await asyncio.gather(*asked)):
                results = sorted(
                    (shown(packet)[0], msgpack.unpackb(shown(packet)[3], strict_map_key=False)[0x30])
                    for packet in packets
                )
                assert results == [(number + 1, [1000 * place + number]) for number in range(100)]
                clients[place].close()
        finally:
            await instance.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())


def test_a_client_that_leaves_while_its_functions_wait(tmp_path: Path) -> None:
    """Its functions run to their end, and their replies go nowhere."""

    async def test() -> None:
        instance = LuaInstance(str(tmp_path))
        try:
            await instance.runtime.eval(_SERVER, msgpack.packb(["write"]))
            leaving, client = await Client.connect(instance), await Client.connect(instance)
            text = "while not released do require('fiber').sleep(0.001) end done = (done or 0) + 1 return 1"
            waiting = asyncio.ensure_future(leaving.ask(numbered([evaluate(text)] * 10)))
            while instance.node.iproto.in_flight < 10:
                await asyncio.sleep(0)
            waiting.cancel()
            leaving.close()
            [packet] = await client.ask(
                numbered(
                    [evaluate("released = true while done ~= 10 do require('fiber').sleep(0.001) end return done")]
                )
            )
            assert msgpack.unpackb(shown(packet)[3], strict_map_key=False)[0x30] == [10]
            assert instance.node.iproto.in_flight == 0
            client.close()
        finally:
            await instance.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())
