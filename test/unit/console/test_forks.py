"""Scripts that call fork themselves, as test frameworks do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FORK = """
local ffi, fiber = require('ffi'), require('fiber')
ffi.cdef('pid_t fork(void); int execve(const char *, char *const[], char *const[]); int kill(pid_t, int);'
    .. 'int pipe(int[2]); void _exit(int);')
local function run(command)
    local pid = ffi.C.fork()
    if pid == 0 then
        local words = ffi.new('const char *[4]', {'/bin/sh', '-c', command})
        ffi.C.execve('/bin/sh', ffi.cast('char *const *', words), ffi.cast('char *const *', ffi.C.environ))
        ffi.C._exit(1)
    end
    return pid
end
local function wait_until(condition)
    for _ = 1, 2000 do
        if condition() then return true end
        fiber.sleep(0.005)
    end
    return false
end
local function is_gone(pid) return ffi.C.kill(pid, 0) ~= 0 end
"""


def run(directory: Path, source: str) -> str:
    (directory / "script.lua").write_text(FORK + source + "\nos.exit(0)\n")
    ended = subprocess.run(
        [sys.executable, "-m", "console", "script.lua"],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_forked_child_that_has_ended_is_gone(tmp_path: Path) -> None:
    """A forked child that has ended does not stay in the list of processes, though the script does not wait for it."""
    source = """
    local short, long = run('exit 3'), run('exec sleep 100')
    print(wait_until(function() return is_gone(short) end), is_gone(long))
    ffi.C.kill(long, 9)
    print(wait_until(function() return is_gone(long) end))
    """
    assert run(tmp_path, source) == "true\tfalse\ntrue\n"


def test_children_that_somebody_waits_for_keep_their_exit_codes(tmp_path: Path) -> None:
    source = """
    local child = run('exit 3')
    local ph = require('popen').shell('exit 7')
    wait_until(function() return is_gone(child) end)
    print(ph:wait().exit_code, os.execute('exit 5') / 256)
    """
    assert run(tmp_path, source) == "7\t5\n"


def test_a_signal_of_a_child_does_not_reach_its_parent(tmp_path: Path) -> None:
    """A signal to a child does not reach its parent, though both share the wake-up pipe until the child runs another
    program.
    """
    source = """
    for _ = 1, 20 do
        local pid = ffi.C.fork()
        if pid == 0 then
            ffi.C.kill(ffi.C.getpid(), 15)
            ffi.C._exit(0)
        end
        wait_until(function() return is_gone(pid) end)
    end
    print('alive')
    """
    assert run(tmp_path, source) == "alive\n"


def test_a_command_that_takes_the_log_finds_open_descriptors(tmp_path: Path) -> None:
    """A log command `|cat >/dev/fd/N` can write to a pipe of the script, which a fiber reads."""
    source = """
    local ends = ffi.new('int[2]')
    ffi.C.pipe(ends)
    require('log').cfg{log = ('|cat > /dev/fd/%d'):format(ends[1])}
    require('log').info('through the pipe')
    local text, buffer = '', ffi.new('char[4096]')
    wait_until(function()
        if require('socket').iowait(ends[0], 'R', 1) == 'R' then
            text = text .. ffi.string(buffer, ffi.C.read(ends[0], buffer, 4096))
        end
        return text:find('through the pipe') ~= nil
    end)
    print(text:match('through the pipe'), require('socket').iowait(ends[0], 'R', 0) == '')
    """
    assert run(tmp_path, source) == "through the pipe\ttrue\n"


def test_arg_has_a_command_that_can_be_started(tmp_path: Path) -> None:
    """`arg[-1]` is a command that can be started, as test frameworks start servers."""
    assert run(tmp_path, "print(os.execute(arg[-1] .. ' --version >/dev/null'))") == "0\n"


def test_signals_do_not_interrupt_reads_of_lua(tmp_path: Path) -> None:
    """The end of a child, SIGHUP and SIGUSR1 arrive while `io` waits for another program."""
    source = """
    run('exit 0')
    print((io.popen('sleep 0.3; echo one'):read('*all')))
    print((io.popen('kill -HUP $PPID; kill -USR1 $PPID; sleep 0.3; echo two'):read('*all')))
    """
    assert run(tmp_path, source) == "one\n\ntwo\n\n"
