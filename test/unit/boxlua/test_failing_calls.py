"""Calls of one read whose writes fail together get the replies of the general path, and leave the same data.

Programs are generated. The same requests go to two nodes whose logs fail at the same writes; one of the nodes serves
each call by itself.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgpack
import pytest
import uvloop

from box.embed import LuaInstance
from box.iproto import calling, turns
from box.journal.wal import WalWriter
from box.wire.row import Row
from test.unit.boxlua.calls_support import Client, call, evaluate, general_path, numbered, shown

_SERVER = b"""
local mode, has_versions = ...
box.cfg{listen = '127.0.0.1:0', wal_mode = mode, memtx_use_mvcc_engine = has_versions, net_msg_max = 2000}
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
local fiber = require('fiber')
s = box.schema.space.create('writes')
s:create_index('pk')
w = box.schema.space.create('watched')
w:create_index('pk')
seen = {}
w:on_replace(function(old, new) table.insert(seen, new and new[2] or 'none') end)
box.schema.func.create('kept', {body = [[function(id) return box.space.writes:replace{id, 'kept'} end]]})
box.schema.func.create('kept_late', {body = [[function(id) box.space.writes:replace{id, 'kept'} return id end]]})
box.schema.func.create('owned', {setuid = true})
function owned(id) return s:replace{id, box.session.euid()} end
function put(id) return s:replace{id, 'put'} end
function adds(id) return s:insert{id, 'new'} end
function changes(id) return s:update({id}, {{'=', 2, 'changed'}}) end
function removes(id) return s:delete{id} end
function upserts(id) return s:upsert({id, 'upserted'}, {{'=', 2, 'again'}}) end
function puts_late(id) local tuple = s:replace{id, 'late'} return tuple end
function uses(id) local tuple = s:replace{id, 'used', 7} return tuple[3], box.session.sync() end
function counts(id) s:replace{id, 'counted'} return 1 end
function two(id) s:replace{id, 'first'} return s:replace{id + 1, 'second'} end
function two_late(id) s:replace{id, 'first'} s:delete{id + 1} return id end
function fails_after(id) s:replace{id, 'left'} error('after ' .. id) end
function catches(id) return pcall(s.replace, s, {id, 'caught'}) end
function retries(id)
    local ok, problem = pcall(s.replace, s, {id, 'tried'})
    return ok, ok or tostring(problem), ok or s:replace{id, 'retried'}
end
function notes(id)
    local ok, problem = pcall(s.replace, s, {id, 'tried'})
    return ok, tostring(box.error.last()), box.session.sync(), s:get{id}
end
function commits(id) box.begin() s:replace{id, 'txn'} s:replace{id + 1, 'txn'} box.commit() return s:get{id} end
function ends_with_commit(id) box.begin() s:replace{id, 'txn'} return box.commit() end
function atomic(id) return box.atomic(function() s:replace{id, 'atomic'} return s:get{id} end) end
function rolls_back(id) box.begin() s:replace{id, 'undone'} box.rollback() return s:get{id} end
function open(id) box.begin() s:replace{id, 'open'} return id end
function hooks(id)
    local told
    box.begin()
    box.on_rollback(function() told = 'undone' end)
    box.on_commit(function() told = 'kept' end)
    s:replace{id, 'hooked'}
    local ok, problem = pcall(box.commit)
    return ok, told
end
function watched(id) return w:replace{id, 'watched'} end
function watched_late(id) w:replace{id, 'watched'} return id end
function spawned(id)
    local f = fiber.create(function() fiber.self():set_joinable(true) local tuple = put(id) return tuple end)
    local ok, result = f:join()
    return ok, ok and result or tostring(result)
end
function pushes(id) box.session.push(id) return s:replace{id, 'pushed'} end
function get(id) return s:get{id} end
function echo(...) return ... end
function fails(x) error(x) end
function session() return box.session.sync(), box.session.euid() end
function stored() local told = seen seen = {} table.sort(told) return s:select(), w:select(), told end
"""
_WRITING = (
    *("put", "put", "put", "adds", "changes", "removes", "upserts", "puts_late", "uses", "counts", "two", "two_late"),
    *("fails_after", "catches", "retries", "notes", "commits", "ends_with_commit", "atomic", "rolls_back", "open"),
    *("hooks", "watched", "watched_late", "spawned", "pushes", "kept", "kept_late", "owned"),
)
_READING = ("get", "get", "echo", "fails", "session")
_PROGRAMS = 200
_KEYS = 12
"""The number of keys that the calls of a program write to."""


class _Disk:
    """Lets writes of the log fail as planned."""

    def __init__(self) -> None:
        self.plan: list[bool] = []
        """Whether each of the next writes fails; later ones succeed."""
        self.failed = 0

    def writing(self, write: Callable[[WalWriter, bytes], None]) -> Callable[[WalWriter, bytes], None]:
        """Return the method that replaces the one of the log's writer which writes to the file."""

        def attempt(writer: WalWriter, data: bytes) -> None:
            if self.plan and self.plan.pop(0):
                self.failed += 1
                write(writer, data[: len(data) // 2])
                raise OSError(errno.EIO, "made to fail")
            write(writer, data)

        return attempt


def _program(choice: random.Random, keys: Iterator[int]) -> list[Row]:
    """Generate the calls of one read; each call gets the next one of `keys`."""
    rows: list[Row] = []
    for _ in range(choice.randrange(2, 40)):
        name = choice.choice(_WRITING if choice.random() < 0.75 else _READING)
        rows.append(call(name, next(keys)))
        if choice.random() < 0.1:
            rows.append(evaluate("return box.space.writes:replace{...}", next(keys), "evaluated"))
        if choice.random() < 0.1:
            rows.append(call("box.space.writes:replace", [next(keys), "directly"]))
    return numbered(rows)


async def _results(seed: int, count: int, directory: str, disk: _Disk, has_versions: bool) -> list[Any]:
    """Return for each program its plan, its replies and the data that it leaves, and the statistics at the end."""
    choice, instance = random.Random(seed), LuaInstance(directory)
    # Where tuples have versions, a change may be written by itself, which the two ways decide differently. So there all
    # writes of a program fail or none does, and no call sees what another one has written.
    keys = itertools.count(0, 10) if has_versions else iter(lambda: choice.randrange(_KEYS), None)
    try:
        await instance.runtime.eval(_SERVER, msgpack.packb(["write", has_versions]))
        client, results = await Client.connect(instance), []
        for number in range(count):
            rows = _program(choice, keys)
            plan = [choice.random() < 0.7 for _ in range(choice.randrange(1, 5))]
            disk.plan = [plan[0]] * 1000 if has_versions else list(plan)
            replies = sorted(map(shown, await client.ask(rows)), key=lambda reply: reply[0])
            disk.plan = []
            stored = [shown(packet)[3] for packet in await client.ask(numbered([call("stored")]))]
            results.append((f"program {number} of seed {seed}, writes that fail: {plan}", rows, replies, stored))
        totals = {name: counter["total"] for name, counter in instance.node.stats.show_box().items()}
        client.close()
        return [*results, totals]
    finally:
        await instance.stop()


@pytest.mark.parametrize("has_versions", [False, True])
def test_calls_whose_writes_fail_together_get_the_replies_of_the_general_path(
    has_versions: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies, the data and the statistics are the same after 200 generated reads while writes of the log fail."""
    # Which calls share a write of the log must not depend on the time.
    monkeypatch.setattr(turns, "_ALONE", 30.0)
    monkeypatch.setattr(calling, "FIRST", 1000)
    monkeypatch.chdir(tmp_path)
    found: list[list[Any]] = []
    disks = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for name in ("waves", "general"):
            (tmp_path / name).mkdir()
            disk = _Disk()
            disks.append(disk)
            with monkeypatch.context() as patch, nullcontext() if name == "waves" else general_path(monkeypatch):
                patch.setattr(WalWriter, "_write_or_make_room", disk.writing(WalWriter._write_or_make_room))
                found.append(runner.run(_results(7, _PROGRAMS, str(tmp_path / name), disk, has_versions)))
    for mine, other in zip(*found, strict=True):
        assert mine == other
    assert min(disk.failed for disk in disks) > _PROGRAMS // 2
    assert has_versions or disks[0].failed == disks[1].failed
