"""CALL and EVAL requests that are served together in Lua ("waves") get the replies of the general path.

The same packets go to two nodes, one of which serves each call by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgpack
import pytest
import uvloop

from box.embed import LuaInstance
from box.iproto import turns
from box.iproto.calling import FIRST
from box.iproto.served_calls import Caller
from box.wire.constants import Key, RequestType
from box.wire.packet import packet_bounds
from box.wire.row import Row, decode_row
from lua.bindings.call_wave import CallWave
from test.unit.boxlua.calls_support import Client, call, evaluate, general_path, numbered, shown

SERVER = b"""
box.cfg{listen = '127.0.0.1:0', wal_mode = (...), memtx_use_mvcc_engine = false}
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
local fiber = require('fiber')
local s = box.schema.space.create('waves')
s:create_index('pk')
local t = box.schema.space.create('denied')
t:create_index('pk')
box.schema.user.create('poor', {if_not_exists = true})
box.schema.user.grant('poor', 'execute', 'universe', nil, {if_not_exists = true})
box.schema.func.create('kept', {body = 'function(x) return x end', if_not_exists = true})
box.schema.func.create('owned', {setuid = true, if_not_exists = true})
function owned() return box.session.euid(), box.session.uid() end
function blames(x, level) error(x, level) end
deep = {er = {}, ['2'] = {}}
function deep.er.add(a, b) return a + b end
deep.er.blames = blames
callable_blames = setmetatable({}, {__call = function(self, ...) error(...) end})
function deep.er:me(x) return self == deep.er, x end
callable = setmetatable({}, {__call = function(self, x) return 'called', x end})
function echo(...) return ... end
function nothing() end
function put(id) return s:replace{id, 'name', 1.5} end
function get(id) return s:get{id} end
function changes(id) return s:update({id}, {{'=', 2, 'other'}}) end
function removes(id) return s:delete{id} end
function catches(id) return pcall(s.replace, s, {id, 'caught'}) end
function catches_twice(id) return pcall(pcall, s.replace, s, {id, 'caught'}) end
function passes_on(id) return changes(id) end
function puts_late(id) local tuple = s:replace{id, 'late'} return tuple end
function puts_then_fails(id) s:replace{id, 'left'} error('after ' .. id) end
function puts_in_new_fiber(id) local f = fiber.new(put, id + 500) f:set_joinable(true) return select('#', f:join()) end
function all() return s:select({}, {limit = 3}) end
function twice(id) box.begin() s:replace{id} s:replace{id, 2} box.commit() return s:get{id} end
function open(id) box.begin() s:replace{id, 'open'} return id end
function undone(id) box.begin() s:replace{id, 'undone'} box.rollback() return s:get{id} end
function fails(x) error(x) end
function raises(x) box.error{code = 1000 + x, reason = 'as you wish'} end
function fails_open(id) box.begin() s:replace{id, 'lost'} error('lost') end
function caught() pcall(s.insert, s, {}) return box.error.last() ~= nil, tostring(box.error.last()) end
function last() return tostring(box.error.last()) end
function duplicate() s:insert{1} s:insert{1} end
function yields(x) fiber.yield() return x, box.session.sync() end
function sleeps(x) fiber.sleep(0.001) return x, box.session.sync() end
function yields_then_fails(x) fiber.yield() error('late ' .. x) end
function yields_open(x) box.begin() s:replace{x, 'gone'} fiber.yield() return x end
function yields_large(n) fiber.yield() return ('y'):rep(n) end
function large(n) return ('x'):rep(n), n end
function many(n) local t = {} for i = 1, n do t[i] = i end return unpack(t) end
function session() return box.session.sync(), box.session.user(), box.session.type(), box.session.euid() end
function stores(x) box.session.storage.x = (box.session.storage.x or 0) + x return box.session.storage.x end
function storage(x) local old = fiber.self().storage.x fiber.self().storage.x = x return old end
function name(x) local old = fiber.name() fiber.name(x) return old end
function names() return fiber.self():name(), fiber.status() end
function cancels() fiber.self():cancel() end
function spawns(x) local r fiber.create(function() r = x end) return r end
function su() return box.session.su('admin', function() return box.session.euid() end) end
function su_fails() return box.session.su('poor', function() return t:select() end) end
function becomes(user) box.session.su(user) return box.session.euid() end
function unencodable() return print end
function half() return 1, function() end end
function serialized() return setmetatable({}, {__serialize = function() return {'shown'} end}) end
function serialized_late() return setmetatable({}, {__serialize = function() error('not shown') end}) end
function trace() return debug.traceback('here') end
function counted() return box.stat().CALL.total, box.stat().EVAL.total end
function pushes(x) box.session.push({x}) return x end
function ddl(n)
    box.schema.space.create('new' .. n) box.space['new' .. n]:drop()
    return box.internal.schema_version()
end
function hidden_ddl(n)
    fiber.create(function() box.schema.space.create('h' .. n) box.space['h' .. n]:drop() end)
    return n
end
function becomes_stored(n)
    box.schema.func.create('echo2', {body = 'function(x) return "stored", x end'})
    return n
end
function echo2(x) return 'global', x end
function drops_stored() box.schema.func.drop('echo2') end
function changes_echo() local old = nothing function nothing() return 'changed' end return old == nothing end
function tuples() return box.tuple.new{1, {2}}, {box.tuple.new{3}}, box.NULL, nil end
function null() return nil end
function wide() return 2^53, -1, 1.5, 18446744073709551615ULL, true, 'text', {a = 1}, {} end
function rows() local r = {} for _, tuple in s:pairs() do r[#r + 1] = tuple end return #r < 1000 end
"""

_FIXED = [
    ("nothing",),
    ("echo",),
    ("echo", 1),
    ("echo", 1, [2], {"a": None}, "t" * 40, 2.5, None, -7, 2**63, b"\x00\xff"),
    ("put", 1),
    ("get", 1),
    ("get", 77),
    ("all",),
    ("twice", 5),
    ("open", 6),
    ("get", 6),
    ("undone", 7),
    ("fails", "no"),
    ("fails", 5),
    ("blames", "caller", 2),
    ("blames", "its caller", 3),
    ("raises", 3),
    ("fails_open", 8),
    ("get", 8),
    ("caught",),
    ("last",),
    ("duplicate",),
    ("yields", 1),
    ("yields", 2),
    ("sleeps", 3),
    ("yields_then_fails", 4),
    ("yields_open", 9),
    ("yields_large", 300_000),
    ("large", 10),
    ("large", 60_000),
    ("large", 140_000),
    ("large", 400_000),
    ("many", 0),
    ("many", 2),
    ("many", 20),
    ("many", 300),
    ("session",),
    ("stores", 1),
    ("stores", 2),
    ("storage", 1),
    ("storage", 2),
    ("name", "mine"),
    ("name", "other"),
    ("names",),
    ("cancels",),
    ("spawns", 4),
    ("su",),
    ("su_fails",),
    ("unencodable",),
    ("half",),
    ("serialized",),
    ("serialized_late",),
    ("trace",),
    ("counted",),
    ("pushes", 1),
    ("ddl", 1),
    ("hidden_ddl", 2),
    ("becomes_stored", 1),
    ("echo2", 5),
    ("drops_stored",),
    ("changes_echo",),
    ("tuples",),
    ("null",),
    ("wide",),
    ("kept", 4),
    ("owned",),
    ("deep.er.add", 1, 2),
    ("deep.er:me", 3),
    ("deep.2.x",),
    ("callable", 1),
    ("missing",),
    ("box.session.user",),
    ("math.floor", 2.5),
    ("string.rep", "x", 3),
    ("echo", *range(300)),
    ("echo", "z" * 5000),
    ("rows",),
    ("box.space.waves:count",),
    ("becomes", "poor"),
    ("becomes", "admin"),
]
_TEXTS = [
    "return ...",
    "return 1, 2, nil",
    "x = (x or 0) + 1 return x",
    "setfenv(1, {}) y = 1 return y",
    "return y",
    "syntax error here",
    "error('bad')",
    "error('bad', 2)",
    "error('bad', 3)",
    "require('fiber').yield() return ...",
    "local a = ... box.begin() return a",
    "return debug.traceback()",
    "box.space.waves:replace{...} return box.space.waves:get{...}",
    "return box.session.sync()",
    "-- " + "c" * 300 + "\nreturn 1",
    "local n = (n or 0) + 1 n = n + 1 return n",
    "return box.error.last() == nil",
    "setfenv(1, {error = error}) error('inside')",
]


def _odd(choice: random.Random) -> Row:
    """Generate a packet in an unusual form, or a wrong one."""
    return choice.choice(
        [
            Row(RequestType.CALL, body=msgpack.packb({0x21: [1], 0x22: "echo"})),
            Row(RequestType.CALL, body=msgpack.packb({0x22: "echo"})),
            Row(RequestType.CALL, body=msgpack.packb({0x22: "echo", 0x21: 5})),
            Row(RequestType.CALL, body=msgpack.packb({0x22: 5, 0x21: []})),
            Row(RequestType.CALL, body=msgpack.packb({0x21: []})),
            Row(RequestType.CALL, body=b"\x82\x22\xa4echo\x21\x91\xc1"),
            Row(RequestType.CALL, body=b"\x82\x22\xa4echo\x21\x92\x01"),
            Row(RequestType.CALL, body=b"\x82\x22\xa4echo\x21\x91\x01\x01"),
            Row(RequestType.CALL, body=b"\x82\x22\xbfecho\x21\x91\x01"),
            Row(RequestType.CALL, body=b"\x82\x22\xd9\x04echo\x21\x91\x01"),
            Row(RequestType.CALL, body=b"\x82\x22\xda\x00\x04echo\x21\x91\x01"),
            Row(RequestType.CALL, body=b"\x82\x22\xa4echo\x21\xdc\x00\x01\x05"),
            Row(RequestType.CALL, body=b"\x82\x22\xa4echo\x21\xdd\x00\x00\x00\x01\x05"),
            Row(RequestType.CALL, body=b"\x82\x22\xa4echo\x21\x91\xc7\x01\x09\x00"),
            Row(RequestType.CALL, body=b"\x83\x22\xa4echo\x21\x91\x01\x27\xa1x"),
            Row(RequestType.CALL, body=b"\x82\x27\xa4echo\x21\x91\x01"),
            Row(RequestType.CALL, body=b""),
            Row(RequestType.EVAL, body=b"\x80"),
            Row(RequestType.CALL_16, body=msgpack.packb({0x22: "echo", 0x21: [1, [2]]})),
            Row(RequestType.PING),
            Row(RequestType.SELECT, body=msgpack.packb({0x10: 280, 0x14: 2, 0x20: []})),
            Row(RequestType.CALL, body=msgpack.packb({0x22: "echo", 0x21: [1]}), schema_version=1),
            Row(99, body=b"\x80"),
        ]
    )


def _program(seed: int) -> list[Row]:
    choice = random.Random(seed)
    rows: list[Row] = []
    while len(rows) < 250:
        kind = choice.random()
        if kind < 0.45:
            rows += [call(*choice.choice(_FIXED[:7])) for _ in range(choice.randrange(1, 12))]
        elif kind < 0.8:
            rows.append(call(*choice.choice(_FIXED)))
        elif kind < 0.92:
            rows.append(evaluate(choice.choice(_TEXTS), choice.randrange(5)))
        else:
            rows.append(_odd(choice))
    syncs = (1, 100, 200, 60_000, 2**31, 2**40, 2**53 + 1)
    return [
        Row(row.type, sync=choice.choice(syncs) + 1000 * number, body=row.body, schema_version=row.schema_version)
        for number, row in enumerate(rows)
    ]


def _waiting_program(seed: int) -> list[Row]:
    """Generate requests of which most wait, and whose replies do not depend on their order."""
    choice = random.Random(seed)
    texts = ("return ...", "return box.session.sync()", "require('fiber').yield() return ...", "error('bad', 2)")
    rows: list[Row] = []
    for number in range(200, 600):
        rows.append(
            choice.choice(
                [
                    call(choice.choice(["put", "twice", "yields", "sleeps", "put"]), number),
                    call(choice.choice(["yields_then_fails", "yields_open", "open", "fails_open", "echo"]), number),
                    call(*choice.choice([("session",), ("fails", "no"), ("yields_large", 3000), ("get", 77), ("su",)])),
                    evaluate(choice.choice(texts), number),
                    evaluate("box.space.waves:replace{...} return box.space.waves:get{...}", number),
                ]
            )
        )
    return numbered(rows)


def _batches(rows: list[Row], wal_mode: str) -> Iterator[list[Row]]:
    """Split requests into batches; those that wait come last, because what runs meanwhile depends on time."""
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if wal_mode == "write" or b"yield" in row.body or b"sleeps" in row.body:
            yield batch
            batch = []
    if batch:
        yield batch


async def _answers(
    rows: list[Row], wal_mode: str, directory: str, flavour: str | None = None, *, are_together: bool = False
) -> list[Any]:
    instance = LuaInstance(directory, flavour=flavour)
    try:
        await instance.runtime.eval(SERVER, msgpack.packb([wal_mode]))
        client = await Client.connect(instance)
        batches = [rows] if are_together else _batches(rows, wal_mode)
        packets = [packet for batch in batches for packet in await client.ask(batch)]
        totals = {name: counter["total"] for name, counter in instance.node.stats.show_box().items()}
        client.close()
        return [packets, totals]
    finally:
        await instance.stop()


@pytest.mark.parametrize("wal_mode", ["none", "write"])
@pytest.mark.parametrize("seed", range(6))
def test_replies_are_those_of_the_general_path(
    seed: int, wal_mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request of a generated program gets the same reply in both ways, and statistics are equal at the end."""
    # With a log, the schema version of the replies behind it depends on the time that its own writes take.
    rows = [row for row in _program(seed) if wal_mode == "none" or b"hidden_ddl" not in row.body]
    monkeypatch.chdir(tmp_path)
    for name in ("waves", "general"):
        (tmp_path / name).mkdir()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found, totals = runner.run(_answers(rows, wal_mode, str(tmp_path / "waves")))
        with general_path(monkeypatch):
            wanted, wanted_totals = runner.run(_answers(rows, wal_mode, str(tmp_path / "general")))
    by_sync = {row.sync: row for row in rows}
    left, right = sorted(map(shown, found)), sorted(map(shown, wanted))
    if wal_mode == "write":
        # The time of the disk decides whether a reply tells the version before a change of the schema or after it.
        left, right = ([(sync, *rest) for sync, _, *rest in replies] for replies in (left, right))
    for mine, other in zip(left, right, strict=True):
        assert mine == other, by_sync[mine[0]]
    assert totals == wanted_totals


@pytest.mark.parametrize("wal_mode", ["none", "write"])
@pytest.mark.parametrize("seed", range(3))
def test_replies_of_functions_that_wait_are_those_of_the_general_path(
    seed: int, wal_mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many requests of one read wait side by side; each gets the reply of the general path."""
    rows = _waiting_program(seed)
    monkeypatch.chdir(tmp_path)
    answers: list[list[Any]] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for name, path in (("waves", nullcontext()), ("general", general_path(monkeypatch))):
            (tmp_path / name).mkdir()
            with path:
                packets, totals = runner.run(_answers(rows, wal_mode, str(tmp_path / name), are_together=True))
            answers.append([*sorted(map(shown, packets)), totals])
    for mine, other in zip(*answers, strict=True):
        assert mine == other


def _serve(rows: list[Row], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[list[bytes], list[int]]:
    """Return the replies, and the number of requests that each wave has served."""
    taken: list[int] = []
    run = CallWave.run

    def counted(self: CallWave, *args: Any) -> Any:
        count, outcome = run(self, *args)
        taken.append(count)
        return count, outcome

    monkeypatch.setattr(CallWave, "run", counted)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        packets, _ = runner.run(_answers(rows, "none", str(tmp_path), are_together=True))
    return packets, taken


def test_requests_of_a_read_are_one_wave(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Requests of one read that need no Python, or that share a context, are served with few entries into Lua."""
    rows = numbered([call("echo", n) for n in range(40)] + [call("put", n) for n in range(40)])
    packets, taken = _serve(rows, monkeypatch, tmp_path)
    assert [decode_row(packet).sync for packet in packets] == list(range(1, 81))
    assert sum(taken) == 80
    assert len(taken) < 20


def test_a_wave_goes_on_behind_functions_that_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One entry into Lua runs as many functions that wait as the connection may have."""
    monkeypatch.setattr(turns, "_ALONE", 10.0)
    rows = numbered([call("yields", n) for n in range(40)] + [call("echo", n) for n in range(60)])
    packets, taken = _serve(rows, monkeypatch, tmp_path)
    assert sorted(decode_row(packet).sync for packet in packets) == list(range(1, 101))
    assert taken[0] == FIRST
    assert sum(taken) == 100


@pytest.mark.parametrize("is_wave", [True, False])
def test_an_error_names_no_caller_outside_of_lua(
    is_wave: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The caller of a requested function is no Lua function, as in Tarantool, so error(text, 2) shows no place."""
    calls = [call(name, "text", level) for name in ("blames", "deep.er.blames", "callable_blames") for level in (2, 3)]
    texts = [evaluate(f"error('text', {level})") for level in (2, 3)]
    with nullcontext() if is_wave else general_path(monkeypatch):
        packets, _ = _serve(numbered(calls + texts), monkeypatch, tmp_path)
    assert [shown(packet)[3] for packet in packets] == ["text"] * len(packets)


def test_functions_of_the_dictionary_are_one_wave(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Functions with and without a body, also of an owner, need not leave a wave."""
    monkeypatch.setattr(turns, "_ALONE", 10.0)
    calls = [call("kept", 1), call("owned"), call("echo", 2), call("kept", 3), call("session")] * 8
    packets, taken = _serve(numbered(calls), monkeypatch, tmp_path)
    assert taken == [40]
    assert [shown(packet)[0] for packet in packets] == list(range(1, 41))
    results = [msgpack.unpackb(shown(packet)[3], strict_map_key=False)[0x30] for packet in packets[:5]]
    assert results == [[1], [1, 0], [2], [3], [5, "guest", "binary", 0]]


def test_a_wave_gives_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Functions that take longer than a turn are not served together."""
    busy = "local clock = require('clock') local e = clock.monotonic() + 0.004 while clock.monotonic() < e do end"
    packets, taken = _serve(numbered([evaluate(busy)] * 10), monkeypatch, tmp_path)
    assert len(packets) == 10
    assert taken == [1] * 10


_LAST_WRITES = ("put", "put", "put", "changes", "removes", "passes_on", "catches", "catches_twice", "puts_late")
_FAILING = "box.error.injection.set('ERRINJ_WAL_WRITE', true)"
_SYNCHRONOUS = """
box.cfg{replication_synchro_quorum = 2, replication_synchro_timeout = 0.001}
s:alter{is_sync = true}
"""


def _writing_program(seed: int) -> list[Row]:
    """Generate requests that write, most of them with their last act, to keys of their own."""
    choice, rows = random.Random(seed), []
    for number in range(1000, 1200):
        name = choice.choice([*_LAST_WRITES, "puts_then_fails", "puts_in_new_fiber", "echo", "session"])
        rows += [call("put", number), call(name, number)]
        rows.append(evaluate("return box.space.waves:replace{...}", number, choice.randrange(5)))
        if choice.random() < 0.1:
            rows.append(call("box.space.waves:replace", [number, "directly"]))
    return numbered(rows)


@pytest.mark.parametrize("trouble", ["", _FAILING, _SYNCHRONOUS])
@pytest.mark.parametrize("seed", range(2))
def test_functions_that_end_with_a_write_get_the_replies_of_the_general_path(
    seed: int, trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results and errors of `return space:replace{}` are the same, and so are statistics and the data."""
    rows, answers = _writing_program(seed), []
    size = 40
    if trouble:  # then the error of a write depends on whether it is behind another one that fails
        rows, size = rows[:200], 1
    ends = [evaluate("return box.error.injection.set('ERRINJ_WAL_WRITE', false), s:select({}, {limit = 1000})")]
    monkeypatch.setattr("test.unit.boxlua.test_call_waves.SERVER", SERVER + b"rawset(_G, 's', s)\n" + trouble.encode())
    monkeypatch.chdir(tmp_path)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for name, path in (("waves", nullcontext()), ("general", general_path(monkeypatch))):
            (tmp_path / name).mkdir()
            with path:
                packets, totals = runner.run(_served_in_batches(rows, ends, size, str(tmp_path / name)))
            answers.append([*sorted(map(shown, packets)), totals])
    for mine, other in zip(*answers, strict=True):
        assert mine == other


async def _served_in_batches(rows: list[Row], ends: list[Row], size: int, directory: str) -> list[Any]:
    instance = LuaInstance(directory)
    try:
        await instance.runtime.eval(SERVER, msgpack.packb(["write"]))
        client = await Client.connect(instance)
        packets = [
            packet for start in range(0, len(rows), size) for packet in await client.ask(rows[start : start + size])
        ]
        packets += await client.ask([Row(row.type, sync=10_000, body=row.body) for row in ends])
        totals = {name: counter["total"] for name, counter in instance.node.stats.show_box().items()}
        client.close()
        return [packets, totals]
    finally:
        await instance.stop()


def _counted_waits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the sync of each function is added that has waited and is replied to by its wave."""
    waited: list[int] = []
    functions_ended = Caller.functions_ended

    def counted(self: Caller, replies: bytes, count: int, largest: int) -> None:
        before, start = len(waited), 0
        while start < len(replies):
            start, stop = packet_bounds(replies, start)
            waited.append(decode_row(replies[start:stop]).sync)
            start = stop
        assert len(waited) - before == count
        functions_ended(self, replies, count, largest)

    monkeypatch.setattr(Caller, "functions_ended", counted)
    return waited


def test_a_function_that_ends_with_a_write_keeps_no_fiber(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only functions wait that go on after their write, or catch its error."""
    waited = _counted_waits(monkeypatch)
    rows = numbered(
        [call(name, 7) for name in ("put", "changes", "passes_on", "removes", "catches", "puts_late", "put")]
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        packets, _ = runner.run(_answers(rows, "write", str(tmp_path), are_together=True))
    assert waited == [5, 6]
    assert len(packets) == 7


def test_a_function_that_goes_on_after_some_writes_keeps_no_fiber_again_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The stack is not searched at each write of such a function; once it only ends with writes, it waits no more."""
    waited = _counted_waits(monkeypatch)
    text = "local key, is_last = ... if is_last then return s:replace{key} end s:replace{key} return s:get{key}"
    rows = numbered([evaluate(text, number, number > 5) for number in range(1, 201)])
    monkeypatch.setattr("test.unit.boxlua.test_call_waves.SERVER", SERVER + b"rawset(_G, 's', s)\n")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        packets, _ = runner.run(_answers(rows, "write", str(tmp_path), are_together=True))
    assert set(range(1, 6)) <= set(waited)
    assert not [sync for sync in waited if sync > 100]
    replies = {row.sync: msgpack.unpackb(row.body, strict_map_key=False)[Key.DATA] for row in map(decode_row, packets)}
    assert replies == {number: [[number]] for number in range(1, 201)}


def test_a_function_that_waited_first_goes_on_before_later_replies(tmp_path: Path) -> None:
    """A reply that waits for the log does not overtake functions whose writes were before."""
    rows = numbered([call("puts_late", 1), *[call("put", number) for number in range(2, 10)]])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        packets, _ = runner.run(_answers(rows, "write", str(tmp_path), are_together=True))
    assert [decode_row(packet).sync for packet in packets] == list(range(1, 10))
