"""Simulated files have the results and errnos of the operating system."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.testing.simulation.disk import SimulatedDisk
from box.testing.simulation.simulated_files import LARGEST, SimulatedFiles
from lua.machine import Files, SystemFiles

READ, WRITE, BOTH = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
CREAT, EXCL, TRUNC, APPEND = os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND


def make(seed: int = 1) -> SimulatedFiles:
    return SimulatedFiles(SimulatedDisk(lambda: 1000.5, lambda: 0.0, Random(seed)), Random(seed))


class OneSide:
    """The files below a directory, real or simulated, driven by a generated program.

    Descriptors are numbered in the order of their opening. Paths that begin with a slash are below a root so deep that
    no program climbs out of it.
    """

    def __init__(self, files: Files, base: bytes) -> None:
        self.files = files
        self._base = base
        self._root = base + b"/n" * DEPTH
        self._opened: list[int] = []
        for depth in range(1, DEPTH + 1):
            files.mkdir(base + b"/n" * depth, 0o755)
        files.chdir(self._root)

    def run(self, name: str, *arguments: Any) -> Any:
        """Make a call; return its result, or the name of its errno."""
        try:
            return self._plain(self._call(name, *arguments))
        except OSError as error:
            if name == "rmtree":  # versions of Python differ
                return "error"
            return errno.errorcode[error.errno] if error.errno else "error"

    def _call(self, name: str, first: Any = None, *more: Any) -> Any:
        if name in BY_DESCRIPTOR:
            fd = self._opened[first] if first < len(self._opened) else NO_DESCRIPTOR
            if name == "lseek" and stat.S_ISDIR(self.files.fstat(fd)["mode"]):
                return None  # each file system has numbers of its own
            result = getattr(self.files, name)(fd, *more)
            if name == "close":
                self._opened[first] = NO_DESCRIPTOR
            return result
        if name == "open":
            self._opened.append(self.files.open(self._path(first), *more))
            return None
        if name == "symlink":
            return self.files.symlink(first, self._path(*more))
        arguments = () if first is None else (first, *more)
        return getattr(self.files, name)(*map(self._path, arguments))

    def _path(self, argument: Any) -> Any:
        return self._root + argument if isinstance(argument, bytes) and argument.startswith(b"/") else argument

    def _plain(self, result: Any) -> Any:
        if isinstance(result, dict):
            is_directory = stat.S_ISDIR(result["mode"])
            return {name: result[name] for name in (["mode"] if is_directory else ["mode", "nlink", "size"])}
        if isinstance(result, list):
            return sorted(map(self._plain, result))
        return result.removeprefix(self._base) if isinstance(result, bytes) else result

    def tree(self) -> dict[bytes, Any]:
        """Return all files and directories with their contents."""
        found: dict[bytes, Any] = {}

        def walk(directory: bytes) -> None:
            for name in sorted(self.files.listdir(directory)):
                path = directory + b"/" + name
                facts = self._plain(self.files.lstat(path))
                found[path.removeprefix(self._base)] = facts, self._content(path, facts["mode"])
                if stat.S_ISDIR(facts["mode"]):
                    walk(path)

        walk(self._base + b"/n")
        return found

    def _content(self, path: bytes, mode: int) -> bytes | None:
        if stat.S_ISLNK(mode):
            return self.files.readlink(path)
        return read(self.files, path) if stat.S_ISREG(mode) else None

    def close(self) -> None:
        """Close all descriptors."""
        for fd in self._opened:
            if fd != NO_DESCRIPTOR:
                self.files.close(fd)


def read(files: Files, path: bytes) -> bytes:
    """Return the content of a file."""
    fd = files.open(path, READ, 0)
    try:
        return files.read(fd, 10**6)
    finally:
        files.close(fd)


DEPTH = 40
MEMORY = "/dev/shm"
"""A memory file system, in which syncs are quick."""
NO_DESCRIPTOR = 10**6
BY_DESCRIPTOR = frozenset("close read pread write pwrite lseek ftruncate fsync fdatasync fstat".split())

NAMES = (b"a", b"b", b"dir", b"link")
PATHS = st.one_of(
    st.sampled_from([*NAMES, b"/a", b"/dir/a", b"dir/a", b"dir/dir", b"dir/dir/b"]),
    st.sampled_from(
        [b"", b".", b"..", b"/", b"dir/", b"a/", b"a/a", b"dir/.", b"dir/..", b"link/", b"link/a", b"no/a"]
    ),
    st.lists(st.sampled_from([*NAMES, b".", b"dir/..", b"link/.."]), min_size=1, max_size=3).map(b"/".join),
)
FLAGS = st.sampled_from(
    [
        access | more | created
        for access in (READ, WRITE, BOTH)
        for more in (0, 0, TRUNC, APPEND, os.O_NOFOLLOW, os.O_SYNC)
        for created in (0, CREAT, CREAT, CREAT | EXCL)
    ]
)
FDS = st.sampled_from([0, 0, 0, 1, 1, 2, 3])
DATA = st.binary(max_size=12)
OFFSETS = st.integers(-2, 40)
MODES = st.sampled_from([0o700, 0o744, 0o755, 0o777, 0o1777])
PATTERNS = st.sampled_from(
    [b"*", b"/*", b"d*/*", b"*/", b"[ab]", b"?", b".*", b"*/a", b"dir/*", b"a", b"dir/", b"no/*"]
)


def call(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(name), *arguments)


CALLS = st.one_of(
    call("open", PATHS, FLAGS, MODES),
    call("open", PATHS, st.sampled_from([CREAT | BOTH, CREAT | BOTH | APPEND, CREAT | TRUNC | BOTH]), MODES),
    call("close", FDS),
    call("read", FDS, st.integers(-1, 30)),
    call("pread", FDS, st.integers(-1, 30), OFFSETS),
    call("write", FDS, DATA),
    call("write", FDS, DATA),
    call("pwrite", FDS, DATA, OFFSETS),
    call("lseek", FDS, OFFSETS, st.integers(0, 2)),
    call("ftruncate", FDS, OFFSETS),
    call("fsync", FDS),
    call("fdatasync", FDS),
    call("fstat", FDS),
    call("stat", PATHS),
    call("lstat", PATHS),
    call("mkdir", PATHS, MODES),
    call("mkdir", st.sampled_from([b"dir", b"dir/dir", b"b"]), MODES),
    call("rmdir", PATHS),
    call("unlink", PATHS),
    call("rename", PATHS, PATHS),
    call("rename", st.sampled_from(NAMES), st.sampled_from(NAMES)),
    call("link", PATHS, PATHS),
    call("symlink", st.sampled_from([b"a", b"dir", b"../a", b"link", b"b/", b"."]), PATHS),
    call("readlink", PATHS),
    call("chmod", PATHS, MODES),
    call("truncate", PATHS, OFFSETS),
    call("chdir", PATHS),
    call("cwd"),
    call("umask", st.sampled_from([0, 0o022, 0o077])),
    call("listdir", PATHS),
    call("glob", PATTERNS),
    call("copyfile", PATHS, st.sampled_from([b"a", b"b", b"dir", b"dir/b"])),
    call("rmtree", st.sampled_from([b"dir", b"a", b"link", b"dir/dir", b"no"])),
)
BEGINNING = [
    ("mkdir", b"dir", 0o755),
    ("open", b"a", CREAT | BOTH, 0o644),
    ("open", b"dir/a", CREAT | BOTH | APPEND, 0o600),
    ("write", 0, b"0123456789"),
    ("write", 1, b"abcdef"),
    ("symlink", b"dir", b"link"),
    ("mkdir", b"dir/dir", 0o777),
    ("open", b"dir/dir/b", CREAT | EXCL | WRITE, 0o640),
]
PROGRAMS = st.builds(
    lambda size, calls: [*BEGINNING[:size], *calls],
    st.sampled_from([0, *[len(BEGINNING)] * 4]),
    st.lists(CALLS, min_size=1, max_size=25),
)


@contextmanager
def real_side() -> Iterator[OneSide]:
    """Yield the operating system's files below a temporary directory."""
    before, mask = os.getcwd(), os.umask(0o022)
    directory = tempfile.mkdtemp(dir=MEMORY if os.path.isdir(MEMORY) else None)
    side = OneSide(SystemFiles(), os.fsencode(directory))
    try:
        yield side
    finally:
        os.chdir(before)
        os.umask(mask)
        side.close()
        shutil.rmtree(directory)


@settings(max_examples=120, deadline=None)
@given(PROGRAMS)
def test_programs_do_the_same_on_both_sides(program: list[tuple[Any, ...]]) -> None:
    with real_side() as real:
        simulated = OneSide(make(), b"")
        for step in program:
            assert (step, simulated.run(*step)) == (step, real.run(*step))
        assert simulated.tree() == real.tree()


def fails(number: int, call: Callable[..., Any], *arguments: Any) -> None:
    """Assert that a call fails with an errno."""
    with pytest.raises(OSError) as caught:
        call(*arguments)
    assert caught.value.errno == number


def test_what_no_program_tries_has_an_errno_too() -> None:
    files = make()
    fd = files.open(b"a", CREAT | BOTH, 0o644)
    files.write(fd, b"abc")
    fails(errno.EFBIG, files.pwrite, fd, b"x", LARGEST)
    fails(errno.EFBIG, files.ftruncate, fd, LARGEST + 1)
    fails(errno.ENAMETOOLONG, files.stat, b"x" * 256)
    fails(errno.ENAMETOOLONG, files.stat, b"x/" * 2500)
    fails(errno.EOPNOTSUPP, files.open, b".", os.O_TMPFILE | WRITE, 0o600)
    fails(errno.ENXIO, files.lseek, fd, 3, os.SEEK_DATA)
    assert files.lseek(fd, 1, os.SEEK_HOLE) == 3
    with pytest.raises(ValueError, match="null byte"):
        files.stat(b"a\0")
    files.mkdir(b"dir", 0o755)
    files.chdir(b"dir")
    files.rmdir(b"../dir")
    fails(errno.ENOENT, files.cwd)
    fails(errno.ENOENT, files.open, b"new", CREAT | WRITE, 0o644)
    fails(errno.ENOENT, files.mkdir, b"new", 0o755)


def test_times_are_those_of_the_clock_of_the_process() -> None:
    now = 1000.5
    files = SimulatedFiles(SimulatedDisk(lambda: now, lambda: 0.0, Random(1)), Random(1))
    fd = files.open(b"a", CREAT | BOTH, 0o644)
    now = 2000.5
    files.write(fd, b"abc")
    facts = files.fstat(fd)
    assert (facts["atime"], facts["mtime"], facts["ctime"]) == (1000, 2000, 2000)
    files.utime(b"a", (1.0, 2.5))
    facts = files.stat(b"a")
    assert (facts["atime"], facts["mtime"], facts["ctime"]) == (1, 2, 2000)
    now = 3000.5
    files.rename(b"a", b"b")
    assert files.stat(b".")["mtime"] == 3000


def test_equal_seeds_give_equal_numbers_and_names() -> None:
    def facts(seed: int) -> list[Any]:
        files = make(seed)
        first = files.open(b"a", CREAT | WRITE, 0o644)
        files.close(first)
        second = files.open(b"a", READ, 0)
        return [first, second, files.fstat(second), files.tempdir(None, None), files.tempdir(b"/tmp", None)]

    assert facts(1) == facts(1)
    assert facts(1)[:3] == facts(2)[:3]
    assert facts(1)[3:] != facts(2)[3:]


def test_a_descriptor_is_never_given_twice() -> None:
    """A descriptor is never reused, so that a use after its close cannot reach another file."""
    files = make()
    first = files.open(b"a", CREAT | WRITE, 0o644)
    files.close(first)
    assert files.open(b"b", CREAT | WRITE, 0o644) != first
    fails(errno.EBADF, files.write, first, b"x")


def test_the_files_of_the_journal_are_the_same() -> None:
    disk = SimulatedDisk(lambda: 0.0, lambda: 0.0, Random(1))
    files = SimulatedFiles(disk, Random(1))
    disk.create("wal/deep/1.xlog").write(b"rows")
    assert files.listdir(b"/") == [b"wal"]
    assert files.glob(b"wal/*/*.xlog") == [b"wal/deep/1.xlog"]
    assert read(files, b"/wal/deep/1.xlog") == b"rows"
    files.rename(b"wal/deep/1.xlog", b"1.xlog")
    assert disk.names(".") == ["1.xlog", "wal"]
    assert disk.names("wal/deep") == disk.names("nothing") == []
    assert disk.open("./1.xlog").read(0, 10) == b"rows"
    assert disk.used == 4
    files.symlink(b"1.xlog", b"link")
    assert disk.size("link") == 4
    disk.remove("1.xlog")
    assert not disk.exists("link")
    assert disk.used == 0
