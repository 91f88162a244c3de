"""Files and directories. Error texts were printed by a running Tarantool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from box.errors import BoxError

from .conftest import Lua


def test_a_file_is_written_and_read(lua: Lua, tmp_path: Path) -> None:
    assert lua(
        """local fio = require('fio')
        local f = fio.open(..., {'O_CREAT', 'O_RDWR', 'O_TRUNC'}, tonumber('644', 8))
        local results = {f:write('hello'), f:pwrite('XX', 1), f:seek(0), f:read(2), f:read(), f:pread(2, 1),
            f:truncate(2), f:stat().size, f:fsync(), f:close()}
        local ok, problem = f:close()
        return results, ok, tostring(problem)""",
        str(tmp_path / "file"),
    ) == [[True, True, 0, "hX", "Xlo", "XX", True, 2, True, True], False, "fio: Bad file descriptor"]
    assert (tmp_path / "file").read_bytes() == b"hX"


def test_large_writes_and_reads_go_through_a_thread(lua: Lua, tmp_path: Path) -> None:
    assert lua(
        """local fio = require('fio')
        local f = fio.open(..., {'O_CREAT', 'O_RDWR'}, tonumber('644', 8))
        f:write(('x'):rep(1000000))
        f:seek(0)
        local size = #f:read()
        f:close()
        return size""",
        str(tmp_path / "file"),
    ) == [1000000]


def test_a_file_that_nobody_closes_is_closed_by_the_collector(lua: Lua, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    lua(
        """local fio = require('fio')
        for _ = 1, 50 do
            fio.open(..., {'O_CREAT', 'O_RDWR'}, tonumber('644', 8))
        end
        collectgarbage() collectgarbage()""",
        str(tmp_path / "file"),
    )
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after - before < 50


def test_directories_and_trees(lua: Lua, tmp_path: Path) -> None:
    assert lua(
        """local fio, root = require('fio'), ...
        local made = fio.mktree(root .. '/a/b')
        local f = fio.open(root .. '/a/x.txt', {'O_CREAT', 'O_WRONLY'}, tonumber('644', 8))
        f:write('x') f:close()
        fio.symlink('x.txt', root .. '/a/link')
        local copied = fio.copytree(root .. '/a', root .. '/c')
        local names = fio.listdir(root .. '/c')
        table.sort(names)
        local copy = fio.copyfile(root .. '/a/x.txt', root .. '/copy')
        local facts = {fio.path.is_dir(root .. '/c/b'), fio.path.is_file(root .. '/copy'),
            fio.path.is_link(root .. '/c/link'), fio.path.exists(root .. '/no'), fio.path.lexists(root .. '/c/link')}
        local removed = fio.rmtree(root .. '/c')
        return made, copied, names, copy, facts, removed, fio.path.exists(root .. '/c'), #fio.glob(root .. '/*')""",
        str(tmp_path),
    ) == [True, True, ["b", "link", "x.txt"], True, [True, True, True, False, True], True, False, 2]


def test_failures_are_values(lua: Lua) -> None:
    assert lua(
        """local fio = require('fio')
        local function text(...) local r = {...} return {r[1] == nil and 'nil' or r[1], tostring(r[2])} end
        return text(fio.open('/nonexist/x')), text(fio.unlink('/nonexist')), text(fio.stat('/nonexist')),
            text(fio.listdir('/nonexist')), text(fio.rmtree('/nonexist')), text(fio.copyfile('/nonexist', '/x')),
            text(fio.copytree('/nonexist', '/x')), select(2, fio.unlink('/nonexist')).errno"""
    ) == [
        ["nil", "fio: No such file or directory"],
        [False, "fio: No such file or directory"],
        ["nil", "fio: No such file or directory"],
        ["nil", "can't listdir /nonexist: fio: No such file or directory"],
        ["nil", "can't listdir /nonexist: fio: No such file or directory"],
        [False, "failed to copy /nonexist to /x: fio: No such file or directory"],
        [False, "Directory /nonexist does not exist"],
        2,
    ]


def test_paths(lua: Lua) -> None:
    assert lua(
        """local fio = require('fio')
        return fio.pathjoin('/', 'a', '/b', '..', 'c'), fio.pathjoin('a', '', 'b/'), fio.basename('/a/b.lua', '.lua'),
            fio.dirname('/a/b/'), fio.dirname('a'), fio.dirname('/'), fio.abspath('/a/../b//./c')"""
    ) == ["/a/b/../c", "a/b", "b", "/a", ".", "/", "/b/c"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("fio.open()", r"Usage: fio.open\(path"),
        ("fio.open('x', {'O_XX'})", "unknown flag: O_XX"),
        ("fio.pathjoin(nil)", "undefined path part 1"),
        ("fio.symlink('a')", "Usage: fio.symlink"),
    ],
)
def test_wrong_arguments_are_raised(lua: Lua, call: str, message: str) -> None:
    with pytest.raises(BoxError, match=message):
        lua(f"local fio = require('fio') {call}")


def test_accounts(lua: Lua) -> None:
    name, workdir, nothing, group = lua(
        """local pwd = require('pwd')
        return pwd.getpw(0).name, pwd.getpw('root').workdir, pwd.getpw('no such user') == nil, pwd.getgr(0).id"""
    )
    assert (name, bool(workdir), nothing, group) == ("root", True, True, 0)


def test_errno_of_a_failure(lua: Lua, tmp_path: Path) -> None:
    """errno of a failure is kept through a print."""
    assert (
        lua(
            """local fio, errno = require('fio'), require('errno')
        local results = {}
        for _, call in ipairs({fio.open, fio.stat, fio.unlink, fio.listdir, fio.chdir}) do
            errno(0)
            print(call(... .. '/nothing'))
            table.insert(results, errno() == errno.ENOENT and errno.strerror())
        end
        return unpack(results)""",
            str(tmp_path),
        )
        == ["No such file or directory"] * 5
    )


def test_a_negative_offset_is_the_position_of_the_file(lua: Lua, tmp_path: Path) -> None:
    assert lua(
        """local fio = require('fio')
        local f = fio.open(..., {'O_CREAT', 'O_RDWR'}, tonumber('644', 8))
        f:write('abc')
        local written = f:pwrite('d', -1)
        f:seek(1)
        return written, f:pread(2, -1), f:pread(2, -1)""",
        str(tmp_path / "file"),
    ) == [True, "bc", "d"]


def test_questions_without_a_path(lua: Lua) -> None:
    for call, message in (
        ("fio.lstat()", "pathname is absent"),
        ("fio.stat('/').is_dir()", "usage: stat:is_dir()"),
    ):
        with pytest.raises(BoxError) as failure:
            lua(f"local fio = require('fio') {call}")
        assert failure.value.message.endswith(message)


def test_umask_without_an_argument_changes_nothing(lua: Lua) -> None:
    assert lua(
        """local fio = require('fio') local before = fio.umask(18) fio.umask() local now = fio.umask(before)
        return now"""
    ) == [18]


def test_an_unknown_account_is_nil(lua: Lua, tmp_path: Path) -> None:
    assert lua("return require('fio').chown(..., 'no such user', 0)", str(tmp_path)) == [None]


def test_numbers_are_converted_as_in_c(lua: Lua, tmp_path: Path) -> None:
    """Numbers out of range become the least one, whose low bits are 0; a mode that is left out gives no rights."""
    assert lua(
        """local fio, path = require('fio'), ...
        local function mode_of(...)
            local file = fio.open(path, {'O_CREAT', 'O_RDWR'}, ...)
            local mode = file:stat().mode % 512
            file:close()
            fio.unlink(path)
            return mode
        end
        local file = fio.open(path .. 'x', {'O_CREAT', 'O_RDWR'}, 420)
        local function text(ok, problem) return ok or tostring(problem) end
        return mode_of(), mode_of(nil), mode_of(420), mode_of({'S_IRUSR', 2}), mode_of(1e300), file:read(0),
            text(file:truncate(1e300)), text(fio.mkdir(path, 2^32 + 448)), fio.stat(path).mode % 512,
            text(fio.chmod(path .. '/no', 18446744073709551615ULL)), text(fio.utime(path .. '/no', 1, 1/0)),
            text(fio.utime(path, 0/0)), file:seek(2LL), select(2, pcall(fio.open, path, 0, box.NULL)):match('bad.*'),
            select(2, pcall(file.read, file, 1e300)):match('Failed.*')""",
        str(tmp_path / "made"),
    ) == [
        0, 0, 420, 256, 396, "", "fio: Invalid argument", True, 448, "fio: No such file or directory",
        "fio: No such file or directory", "fio: Invalid argument", 2,
        "bad argument #2 to 'bor' (number expected, got nil)", "Failed to allocate -9223372036854775808 bytes in ibuf",
    ]  # fmt: skip


def test_paths_end_at_a_zero_byte(lua: Lua, tmp_path: Path) -> None:
    """For the system; error texts show all of a path."""
    (tmp_path / "a").write_text("x")
    assert lua(
        r"""local fio, directory = require('fio'), ...
        return fio.stat(directory .. '/a\0b').size, fio.path.lexists(5), fio.dirname('a\0/b'),
            select(2, fio.copytree('no\0pe', 'x')), select(2, pcall(fio.open, 'x', 'O\0'))""",
        str(tmp_path),
    )[:4] == [1, False, ".", "Directory no\0pe does not exist"]


def test_a_loop_over_files_gives_way(lua: Lua, tmp_path: Path) -> None:
    """Each call lets other fibers run, which ends a transaction. A fiber that cannot wait or is cancelled goes on."""
    assert lua(
        """local fio, fiber = require('fio'), require('fiber')
        local path = ...
        fiber.create(function() fiber.sleep(0.01) fio.open(path, {'O_CREAT'}):close() end)
        while not fio.path.exists(path) do end
        local function many() for _ = 1, 500 do fio.path.exists(path) end end
        box.cfg{log_level = 1}
        box.schema.space.create('s'):create_index('pk')
        box.begin()
        box.space.s:insert{1}
        many()
        local is_committed = pcall(box.commit)
        local inside = ('a'):gsub('a', function() many() return 'b' end)
        local ended
        local cancelled = fiber.create(function() pcall(fiber.sleep, 10) many() ended = not pcall(fiber.testcancel) end)
        cancelled:cancel()
        while not ended do fiber.sleep(0.001) end
        return is_committed, box.space.s:count(), inside, ended""",
        str(tmp_path / "made"),
    ) == [False, 0, "b", True]


def test_calls_that_give_way(lua: Lua, tmp_path: Path) -> None:
    """Calls on files do; those that only concern the process, and glob(), do not."""
    assert lua(
        """local fio, fiber = require('fio'), require('fiber')
        local path = ...
        local function gives_way(call, ...)
            local has_run = false
            fiber.new(function() has_run = true end)
            call(...)
            local result = has_run
            fiber.yield()
            return result
        end
        return gives_way(fio.stat, path), gives_way(fio.path.exists, path .. '/no'), gives_way(fio.listdir, path),
            gives_way(fio.cwd), gives_way(fio.umask), gives_way(fio.glob, path .. '/*')""",
        str(tmp_path),
    ) == [True, True, True, False, False, False]
