"""Calls of functions in `_func`, with and without rights of their own, get the same replies in waves and without them.

Generated calls of two users go to two nodes, one of which serves each call by itself.
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
from box.iproto import served_calls
from box.wire.row import Row
from test.unit.boxlua.calls_support import Client, call, evaluate, general_path, numbered, shown

_RIGHTS = b"""
box.cfg{listen = '127.0.0.1:0', memtx_use_mvcc_engine = false}
local s = box.schema.space.create('hidden')
s:create_index('pk')
s:replace{1}
local function stored(name, options) box.schema.func.create(name, options) end
local function granted(name, options)
    stored(name, options)
    box.schema.user.grant('guest', 'execute', 'function', name)
end
granted('body', {body = 'function(...) return ... end'})
granted('named')
granted('owner', {setuid = true})
granted('owner_with_body', {setuid = true, body = [[function(id)
    return box.session.euid(), box.session.user(), box.space.hidden:get{id} end]]})
granted('owner_puts', {setuid = true, body = 'function(id) return box.space.hidden:replace{id, "put"} end'})
granted('owner_puts_late', {setuid = true, body = 'function(id) box.space.hidden:replace{id, "late"} return id end'})
granted('owner_fails', {setuid = true, body = 'function(x) error(x) end'})
granted('owner_open', {setuid = true, body = 'function(x) box.begin() box.space.hidden:replace{x} end'})
granted('owner_yields', {setuid = true, body = [[function(x)
    require('fiber').yield() return box.session.euid(), x end]]})
granted('owner_changes', {setuid = true, body = [[function()
    return box.session.su('guest', function() return box.session.euid() end), box.session.euid() end]]})
granted('reads', {body = [[function(id)
    return box.session.euid(), pcall(box.space.hidden.get, box.space.hidden, id) end]]})
granted('raw', {body = 'function(object) return object end', takes_raw_args = true})
granted('grants', {setuid = true, body = [[function(name)
    box.schema.user.grant('guest', 'execute', 'function', name, {if_not_exists = true}) end]]})
granted('revokes', {setuid = true, body = [[function(name)
    box.schema.user.revoke('guest', 'execute', 'function', name, {if_exists = true}) end]]})
granted('redefines', {setuid = true, body = [[function(x)
    box.schema.func.drop('body', {if_exists = true})
    box.schema.func.create('body', {body = ('function(...) return %d, ... end'):format(x)})
    box.schema.user.grant('guest', 'execute', 'function', 'body') end]]})
stored('refused', {body = 'function() return "refused" end'})
function named(...) return box.session.euid(), ... end
function owner(...) return box.session.euid(), box.session.uid(), box.space.hidden:get{1} end
function missing_rights() return 1 end
if (...) == 'all' then box.schema.user.grant('guest', 'execute', 'universe') end
"""
_STORED = (
    *("body", "named", "owner", "owner_with_body", "owner_puts", "owner_puts_late", "owner_fails", "owner_open"),
    *("owner_yields", "owner_changes", "reads", "reads", "raw", "refused", "missing_rights", "absent", "body", "named"),
)


def _program_of_rights(seed: int) -> Iterator[list[Row]]:
    """Generate batches of calls, some of which change rights or functions."""
    choice = random.Random(seed)
    for _ in range(20):
        batch = [call(choice.choice(_STORED), choice.randrange(1, 4)) for _ in range(choice.randrange(1, 20))]
        if choice.random() < 0.2:
            batch.insert(choice.randrange(len(batch) + 1), evaluate("return box.session.user()"))
        name = choice.choice(["grants", "grants", "revokes", "redefines", ""])
        if name:
            batch.insert(
                choice.randrange(len(batch) + 1),
                call(name, choice.randrange(9) if name == "redefines" else choice.choice(_STORED[:16])),
            )
        yield numbered(batch)


async def _answers_by_rights(seed: int, rights: str, directory: str) -> list[Any]:
    instance = LuaInstance(directory)
    try:
        await instance.runtime.eval(_RIGHTS, msgpack.packb([rights]))
        client = await Client.connect(instance)
        found = [sorted(map(shown, await client.ask(batch))) for batch in _program_of_rights(seed)]
        client.close()
        return found
    finally:
        await instance.stop()


@pytest.mark.parametrize("rights", ["all", "some"])
@pytest.mark.parametrize("seed", range(4))
def test_functions_of_the_dictionary_are_called_with_the_rights_of_the_general_path(
    seed: int, rights: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Calls are allowed and refused alike, functions see the same users, and changes of rights count at once."""
    monkeypatch.setattr(served_calls, "_REST", 0)
    monkeypatch.chdir(tmp_path)
    answers: list[list[Any]] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for name, path in (("waves", nullcontext()), ("general", general_path(monkeypatch))):
            (tmp_path / name).mkdir()
            with path:
                answers.append(runner.run(_answers_by_rights(seed, rights, str(tmp_path / name))))
    for mine, other in zip(*answers, strict=True):
        assert mine == other
