"""Runs Lua that fails in a node: the error is raised or logged, the node goes on, and acknowledged rows stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from box import BoxError, Node
from box.embed import LuaInstance
from box.errors import ErrorCode


@asynccontextmanager
async def node_with_space(directory: Path) -> AsyncIterator[Node]:
    async with Node(directory, log="log.txt", memtx_max_tuple_size=2000) as node:
        await node.eval("s = box.schema.space.create('s') s:create_index('pk')")
        yield node


@pytest.mark.parametrize(
    ("raised", "line"),
    [
        ("error('oh no')", "E> LuajitError: eval:1: oh no"),
        ("error({})", "E> LuajitError: table: 0x"),
        ("local x = nil; x()", "attempt to call local 'x' (a nil value)"),
        ("box.error(box.error.NO_SUCH_SPACE, 'q')", "E> ER_NO_SUCH_SPACE: Space 'q' does not exist"),
        ("box.error({code = 5, reason = 'mine'})", "E> ER_"),
        ("box.space.s:insert{'x'}", "E> ER_FIELD_TYPE: Tuple field 1 type does not match"),
    ],
)
def test_an_error_in_a_fiber_is_logged(tmp_path: Path, raised: str, line: str) -> None:
    async def run() -> None:
        async with node_with_space(tmp_path) as node:
            await node.eval(f"local fiber = require('fiber') fiber.create(function() {raised} end) fiber.yield()")
            assert line in (tmp_path / "log.txt").read_text()
            assert await node.eval("return box.info.status") == "running"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("return (", "unexpected symbol"),
        ("error('boo')", "boo"),
        ("error({a = 1})", "table: 0x"),
        ("local function f() return 1 + f() end f()", "stack overflow"),
        ("return ('x'):rep(2e9)", "not enough memory"),
        ("local c = {} c.c = c return c", "Too high nest level"),
        ("local c = {} c.c = c s:insert{1, c}", "Too high nest level"),
        ("s:insert{1, print}", "unsupported Lua type 'function'"),
        ("s:insert{0/0}", "Tuple field 1 type does not match"),
        ("s:insert{2^64}", "Tuple field 1 type does not match"),
        ("s:insert{box.NULL}", "Tuple field 1 type does not match"),
        ("s:insert{1, ('x'):rep(3000)}", "tuple is too large. Check 'memtx_max_tuple_size'"),
        ("box.schema.space.create('\\xff\\xfe')", "Invalid identifier"),
        ("box.schema.user.create(('x'):rep(70000))", "too long|too large"),
        ("s:on_replace(5)", "trigger reset: incorrect arguments"),
        ("box.begin() s:insert{9} require('fiber').sleep(0) box.commit()", "aborted by a fiber yield"),
        ("box.session.su('nobody')", "User 'nobody' is not found"),
    ],
)
def test_what_fails_leaves_the_node_as_it_was(tmp_path: Path, source: str, text: str) -> None:
    async def run() -> None:
        async with node_with_space(tmp_path) as node:
            await node.space["s"].insert([100])
            sessions = len(node._embedding.core.sessions.by_id)
            with pytest.raises(BoxError) as caught:
                await node.eval(source)
            assert any(part in caught.value.message for part in text.split("|"))
            assert await node.space["s"].select() == [[100]]
            assert len(node._embedding.core.sessions.by_id) <= sessions + 1
            await node.space["s"].insert([101])

    asyncio.run(run())


@pytest.mark.parametrize("hook", ["on_commit", "on_rollback"])
def test_a_failing_transaction_trigger_is_logged_and_changes_nothing(tmp_path: Path, hook: str) -> None:
    async def run() -> None:
        async with node_with_space(tmp_path) as node:
            end = "commit" if hook == "on_commit" else "rollback"
            await node.eval(f"box.begin() box.{hook}(function() error('late') end) s:insert{{1}} box.{end}()")
            assert await node.space["s"].select() == ([[1]] if hook == "on_commit" else [])
            assert "LuajitError: eval:1: late" in (tmp_path / "log.txt").read_text()

    asyncio.run(run())


@pytest.mark.parametrize(
    "trigger",
    [
        "on_replace(function() error('no') end)",
        "before_replace(function() error('no') end)",
        "before_replace(function() return 5 end)",
        "before_replace(function() return {'x'} end)",
    ],
)
def test_a_failing_replace_trigger_refuses_the_change(tmp_path: Path, trigger: str) -> None:
    async def run() -> None:
        async with node_with_space(tmp_path) as node:
            await node.eval(f"s:{trigger}")
            with pytest.raises(BoxError):
                await node.eval("s:insert{1}")
            assert await node.space["s"].select() == []
        async with Node(tmp_path) as node:
            assert await node.space["s"].select() == []

    asyncio.run(run())


def test_rights_end_at_once_and_a_dropped_user_has_none(tmp_path: Path) -> None:
    """A user's open session is refused as soon as its right is revoked, and after the user is dropped."""

    async def run() -> None:
        async with node_with_space(tmp_path) as node:
            await node.eval("box.schema.user.create('u') box.schema.user.grant('u', 'read,write', 'space', 's')")
            refused = await node.eval(
                """
                local admin, u = require('fiber').channel(), require('fiber').channel()
                require('fiber').create(function()
                    box.session.su('u')
                    local seen = {(pcall(s.insert, s, {1}))}
                    for _ = 1, 2 do
                        u:put(true)
                        admin:get()
                        local ok, problem = pcall(s.insert, s, {2})
                        seen[#seen + 1] = tostring(problem)
                    end
                    u:put(seen)
                end)
                u:get()
                box.schema.user.revoke('u', 'write', 'space', 's')
                admin:put(true)
                u:get()
                box.schema.user.drop('u')
                admin:put(true)
                return u:get()
                """
            )
            assert refused[:2] == [True, "Write access to space 's' is denied for user 'u'"]
            assert "denied" in refused[2] or "not found" in refused[2]
            assert await node.space["s"].select() == [[1]]

    asyncio.run(run())


@pytest.mark.parametrize("option", ["wal_dir", "memtx_dir", "work_dir"])
def test_a_missing_directory_is_named_and_the_next_attempt_may_succeed(tmp_path: Path, option: str) -> None:
    async def run() -> None:
        again = LuaInstance(tmp_path)
        try:
            with pytest.raises(BoxError) as caught:
                await again.configure({option: "nowhere", "log": "log.txt"})
            assert "nowhere" in caught.value.message
            assert again.node.status == "unconfigured"
            await again.configure({"log": "log.txt"})
            assert again.node.status == "running"
        finally:
            await again.stop()

    asyncio.run(run())


def test_a_taken_port_is_logged_with_its_reason(tmp_path: Path) -> None:
    async def run() -> None:
        async with Node(tmp_path, listen="127.0.0.1:0") as first:
            (tmp_path / "second").mkdir()
            with pytest.raises(BoxError, match=": failed to bind"):
                await Node(tmp_path / "second", listen=first.info["listen"], log="log.txt").start()
            log = (tmp_path / "second" / "log.txt").read_text()
            assert "Address already in use" in log
            assert "F> can't initialize storage: : failed to bind" in log

    asyncio.run(run())


def test_a_failed_change_keeps_the_old_value(tmp_path: Path) -> None:
    async def run() -> None:
        async with Node(tmp_path, listen="127.0.0.1:0") as node:
            bound = node.info["listen"]
            for options in ({"listen": "/no/such/dir/s.sock"}, {"net_msg_max": 1}, {"wal_mode": "none"}):
                before = await node.eval("return box.cfg.listen, box.cfg.net_msg_max, box.cfg.wal_mode")
                with pytest.raises(BoxError):
                    await node.configure(**options)
                after = await node.eval("return box.cfg.listen, box.cfg.net_msg_max, box.cfg.wal_mode")
                assert before == after
            assert node._embedding.core.config["listen"] == "127.0.0.1:0"
            assert bound

    asyncio.run(run())


def test_an_unknown_option_has_the_code_of_tarantool(tmp_path: Path) -> None:
    async def run() -> None:
        async with Node(tmp_path) as node:
            for options in ("{nope = 1}", "{listen = print}", "{listen = 1ULL}", "{read_only = {}}"):
                with pytest.raises(BoxError) as caught:
                    await node.eval(f"box.cfg{options}")
                assert caught.value.code == ErrorCode.CFG

    asyncio.run(run())
