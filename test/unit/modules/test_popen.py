"""popen: child processes, their streams and their ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from box.errors import BoxError

from .conftest import Lua

POPEN = "local popen = require('popen') "


def test_a_shell_command_is_written_to_and_read_from(lua: Lua) -> None:
    assert lua(
        POPEN
        + """local ph = popen.shell('cat; echo bad >&2; exit 3', 'rwR')
        ph:write('good')
        ph:shutdown({stdin = true})
        local text, problem, status = ph:read(), ph:read({stderr = true}), ph:wait()
        return text, problem, ph:read(), status.state, status.exit_code, ph.pid, ph.stdin, ph:close(), ph:close()"""
    ) == ["good", "bad\n", "", "exited", 3, None, "closed", True, True]


def test_more_than_a_pipe_takes_is_written_while_another_fiber_reads(lua: Lua) -> None:
    assert lua(
        POPEN
        + """local fiber = require('fiber')
        local ph, size = popen.new({'/bin/cat'}, {stdin = 'pipe', stdout = 'pipe'}), 0
        local writer = fiber.new(function()
            ph:write(('x'):rep(1000000))
            ph:shutdown({stdin = true})
        end)
        while true do
            local chunk = ph:read()
            if chunk == '' then break end
            size = size + #chunk
        end
        return size, ph:wait().exit_code"""
    ) == [1_000_000, 0]


def test_a_read_has_a_timeout_and_a_signal_ends_the_process(lua: Lua) -> None:
    assert lua(
        POPEN
        + """local ph = popen.new({'/bin/sleep', '100'}, {stdout = 'pipe'})
        local data, problem = ph:read({timeout = 0.01})
        ph:terminate()
        local status = ph:wait()
        local sent, why = ph:kill()
        return data, problem.type, status.state, status.signo, status.signame, sent, tostring(why)"""
    ) == [
        None,
        "TimedOut",
        "signaled",
        int(signal.SIGTERM),
        "SIGTERM",
        None,
        "Attempt to send a signal 9 to a process that does not exist anymore",
    ]


def test_what_cannot_be_executed_has_ended_with_the_errno(lua: Lua) -> None:
    assert lua(POPEN + "return popen.new({'/nonexistent'}):wait().exit_code") == [2]
    assert lua(POPEN + "return popen.new({}):wait().exit_code") == [14]  # EFAULT


def test_a_shell_without_a_command_says_so_itself(lua: Lua) -> None:
    handle = "local h = popen.new({}, {shell = true, stderr = popen.opts.PIPE}) "
    text, code = lua(POPEN + handle + "local text = h:read({stderr = true}) return text, h:wait().exit_code")
    assert text.startswith("sh: ")
    assert code == 2


def test_a_handle_that_nobody_has_any_more_ends_its_process(lua: Lua) -> None:
    (pid,) = lua(
        POPEN
        + """local pid = popen.new({'/bin/sleep', '100'}).pid
        collectgarbage() collectgarbage()
        local fiber = require('fiber')
        for _ = 1, 500 do
            if not io.open('/proc/' .. pid .. '/exe') then return pid end
            fiber.sleep(0.01)
        end"""
    )
    assert not Path(f"/proc/{pid}").exists()


def test_the_node_ends_with_its_processes_except_for_those_to_be_kept(lua: Lua) -> None:
    gone, kept = lua(
        POPEN
        + """gone = popen.new({'/bin/sleep', '100'})
        kept = popen.new({'/bin/sleep', '100'}, {keep_child = true})
        return gone.pid, kept.pid"""
    )
    with pytest.raises(ProcessLookupError):
        os.kill(gone, 0)
    os.kill(kept, signal.SIGKILL)
    os.waitpid(kept, 0)


def test_path_is_not_searched_and_texts_end_at_a_zero_byte(lua: Lua) -> None:
    """As execve does it; the first letters of an action are enough, and NULL is no action."""
    assert lua(
        POPEN
        + """local function code(argv, options)
            return popen.new(argv, options):wait().exit_code
        end
        local ph = popen.new({'/bin/echo\0x', 'a\0b'}, {stdout = 'pi', stderr = ''})
        local sleeper = popen.new({'/bin/sleep', '9'})
        local function problem(...) return (select(2, pcall(...))).message end
        return code({'echo'}), code({''}), ph:read(), select(2, sleeper:signal(2^32)).message:match('signo.*'),
            sleeper:kill(), problem(popen.new, {'x'}, {shell = box.NULL}), problem(popen.new, {'x'}, box.NULL),
            problem(popen.shell, 'x', box.NULL), problem(sleeper.read, sleeper, box.NULL)"""
    ) == [
        2, 2, "a\n", "signo -2147483648", True,
        'popen.new: wrong parameter "opts.shell": expected boolean or nil, got cdata',
        'popen.new: wrong parameter "opts": expected table or nil, got cdata',
        'popen.shell: wrong parameter "mode": expected string or nil, got cdata',
        "Bad params, use: ph:read([{stdout = <boolean>, stderr = <boolean>, timeout = <number>}])",
    ]  # fmt: skip


def test_the_environment_is_replaced(lua: Lua) -> None:
    assert lua(
        POPEN
        + """local function env(given)
            return popen.new({'/usr/bin/env'}, {env = given, stdout = 'pipe'}):read()
        end
        return env({A = 'b'}), env({})"""
    ) == ["A=b\n", ""]


def test_a_cancelled_fiber_does_not_wait_on(lua: Lua) -> None:
    assert lua(
        POPEN
        + """local fiber = require('fiber')
        local ph, outcomes = popen.new({'/bin/sleep', '100'}, {stdout = 'pipe'}), {}
        for _, call in ipairs({'wait', 'read'}) do
            local f = fiber.create(function()
                local ok, problem = pcall(ph[call], ph)
                table.insert(outcomes, tostring(problem))
            end)
            f:cancel()
            fiber.yield()
        end
        ph:close()
        return unpack(outcomes)"""
    ) == ["fiber is cancelled", "fiber is cancelled"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("popen.new('x')", 'popen.new: wrong parameter "argv": expected table, got string'),
        ("popen.new({1})", 'popen.new: wrong parameter "argv[1]": expected string, got number'),
        (
            "popen.new({'/bin/true'}, {stdin = 'foo'})",
            'popen.new: wrong parameter "opts.stdin": expected popen.opts.<...> constant, got foo',
        ),
        ("popen.new({'/bin/true'}, {group_signal = true})", "popen: group signal without setting sid"),
        (
            "popen.shell('true', 'x')",
            "popen.shell: wrong parameter \"mode\": expected 'r', 'w', 'R' or its combination",
        ),
        ("popen.shell('true'):read()", "popen: handle does not support the requested IO operation"),
        ("popen.shell('true').wait()", "Bad params, use: ph:wait()"),
        (
            "(function() local ph = popen.shell('true') ph:close() ph:wait() end)()",
            "popen: attempt to operate on a closed handle",
        ),
    ],
)
def test_wrong_arguments(lua: Lua, call: str, message: str) -> None:
    with pytest.raises(BoxError) as raised:
        lua(f"{POPEN}; {call}")
    assert raised.value.message.startswith(message)
    assert raised.value.type == "IllegalParams"


def test_a_handle_shows_the_name_of_its_type(lua: Lua, flavour: str) -> None:
    """Its metatable is hidden, and it is printed with its fields in Tarantool's order (LuaJIT 2.1 has its own)."""
    shown, pid, kind = lua(
        POPEN
        + """local ph = popen.shell('exit 0')
        ph:wait()
        return require('json').encode(ph), ph.pid, getmetatable(ph)"""
    )
    assert pid is None
    assert kind == "popen_handle"
    assert flavour == "luajit21" or shown.startswith('{"command":"sh -c \'exit 0\'","status":{"state":"exited",')
