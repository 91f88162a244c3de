"""Simulated files of programs: what a failing disk may refuse, and what a power failure may lose."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.testing.simulation.disk import (
    LATENCY,
    READ_FAILS,
    SHORT_WRITES,
    SYNC_FAILS,
    TRUNCATE_FAILS,
    WRITE_FAILS,
    SimulatedDisk,
)
from box.testing.simulation.inodes import PAGE
from box.testing.simulation.simulated_files import SimulatedFiles
from lua.bindings.fio import _write_all

CREAT, TRUNC, READ, WRITE, BOTH = os.O_CREAT, os.O_TRUNC, os.O_RDONLY, os.O_WRONLY, os.O_RDWR
SEEDS = range(60)


class Machine:
    """A disk and the files of its process. Each step takes a second, so that syncs are over."""

    def __init__(self, seed: int = 1) -> None:
        self.now = 0.0
        self.disk = SimulatedDisk(lambda: self.now, lambda: self.now, Random(seed))
        self.files = SimulatedFiles(self.disk, Random(seed))

    def put(self, path: bytes, data: bytes, *, is_synced: bool = False, flags: int = CREAT | TRUNC) -> None:
        """Write a file."""
        fd = self.files.open(path, flags | WRITE, 0o644)
        self.files.write(fd, data)
        if is_synced:
            self.files.fsync(fd)
        self.files.close(fd)
        self.now += 1

    def put_at(self, path: bytes, data: bytes, offset: int) -> None:
        """Overwrite bytes of a file."""
        fd = self.files.open(path, WRITE, 0)
        self.files.pwrite(fd, data, offset)
        self.files.close(fd)

    def sync(self, path: bytes) -> None:
        """Sync the bytes of a file, or the names of a directory."""
        fd = self.files.open(path, READ, 0)
        self.files.fsync(fd)
        self.files.close(fd)
        self.now += 1

    def lose_power(self) -> None:
        """Cut the power; another process starts with what is left."""
        self.disk.lose_power()
        self.disk = self.disk.successor()
        self.files = SimulatedFiles(self.disk, Random(1))

    def get(self, path: bytes) -> bytes | None:
        """Return the bytes of a file, None if there is none."""
        try:
            fd = self.files.open(path, READ, 0)
        except FileNotFoundError:
            return None
        return self.files.read(fd, 10**6)


def left(prepare: Callable[[Machine], Any], *paths: bytes) -> list[tuple[bytes | None, ...]]:
    """Return the bytes of files after the power was cut, for many seeds."""
    found = []
    for seed in SEEDS:
        machine = Machine(seed)
        prepare(machine)
        machine.lose_power()
        found.append(tuple(machine.get(path) for path in paths))
    return found


def test_what_is_synced_is_there() -> None:
    def prepare(machine: Machine) -> None:
        machine.put(b"a", b"synced", is_synced=True)
        machine.sync(b".")
        machine.put(b"a", b" and more", flags=os.O_APPEND)

    found = {data for (data,) in left(prepare, b"a")}
    assert all(data is not None and b"synced and more".startswith(data) and len(data) >= 6 for data in found)
    assert len(found) > 5, "a part of what was not synced may be there"


def test_a_sync_that_is_not_over_is_none() -> None:
    def prepare(machine: Machine) -> None:
        machine.put(b"a", b"", is_synced=True)
        machine.sync(b".")
        machine.put(b"a", b"bytes", is_synced=True)
        machine.now -= 1

    assert {data for (data,) in left(prepare, b"a")} > {b"", b"bytes"}


def test_bytes_that_are_written_over_are_old_or_new_page_by_page() -> None:
    old, new = b"o" * (3 * PAGE), b"n" * (2 * PAGE)

    def prepare(machine: Machine) -> None:
        machine.put(b"a", old, is_synced=True)
        machine.sync(b".")
        machine.put_at(b"a", new, PAGE // 2)

    found = {data for (data,) in left(prepare, b"a")}
    ends = (0, PAGE // 2, PAGE, 2 * PAGE, 2 * PAGE + PAGE // 2, 3 * PAGE)
    for data in found:
        assert data is not None
        assert len(data) == len(old)
        assert set(data[: PAGE // 2] + data[2 * PAGE + PAGE // 2 :]) == {ord("o")}
        for begin, end in pairwise(ends):
            page = data[begin:end]
            assert page == b"n" * page.count(b"n") + b"o" * page.count(b"o"), "the beginning of a write, or none"
    assert old in found
    assert old[: PAGE // 2] + new + old[: PAGE // 2] in found
    assert any(data and data[PAGE : PAGE + 1] == b"o" and data[2 * PAGE : 2 * PAGE + 1] == b"n" for data in found)


def test_a_file_that_is_written_anew_without_a_sync_is_old_or_a_part_of_the_new_one() -> None:
    def prepare(machine: Machine) -> None:
        machine.put(b"a", b"old bytes", is_synced=True)
        machine.sync(b".")
        machine.put(b"a", b"new")

    assert {data for (data,) in left(prepare, b"a")} == {b"old bytes", b"", b"n", b"ne", b"new"}


def replace(machine: Machine, steps: int, *, is_synced: bool = True) -> None:
    """Replace a file in the usual way, as far as the disk allows."""
    machine.put(b"a", b"old bytes", is_synced=True)
    machine.sync(b".")
    files = machine.files
    done: list[Callable[[], Any]] = [
        lambda: machine.put(b"a.new", b"the new bytes", is_synced=is_synced),
        lambda: files.rename(b"a.new", b"a"),
        lambda: machine.sync(b"."),
    ]
    for step in done[:steps]:
        step()


@pytest.mark.parametrize("steps", range(4))
def test_a_file_that_is_replaced_is_never_torn(steps: int) -> None:
    """A file that is replaced by another one, which is synced and renamed before the directory is synced, is never
    torn.
    """
    found = {data for (data,) in left(lambda machine: replace(machine, steps), b"a")}
    assert found == [{b"old bytes"}, {b"old bytes"}, {b"old bytes", b"the new bytes"}, {b"the new bytes"}][steps]


def test_a_file_that_is_replaced_without_a_sync_may_be_torn() -> None:
    found = {data for (data,) in left(lambda machine: replace(machine, 3, is_synced=False), b"a")}
    assert b"" in found
    assert len(found) > 5


def test_names_go_with_their_directory() -> None:
    def prepare(machine: Machine) -> None:
        machine.files.mkdir(b"dir", 0o755)
        machine.put(b"dir/a", b"a", is_synced=True)
        machine.sync(b"dir")

    assert {data for (data,) in left(prepare, b"dir/a")} == {None, b"a"}


def test_a_removed_name_may_come_back() -> None:
    def prepare(machine: Machine, *, is_synced: bool = False) -> None:
        machine.files.mkdir(b"dir", 0o755)
        machine.put(b"dir/a", b"a", is_synced=True)
        machine.files.sync()
        machine.now += 1
        machine.files.unlink(b"dir/a")
        machine.files.rmdir(b"dir")
        if is_synced:
            machine.sync(b".")

    assert {data for (data,) in left(prepare, b"dir/a")} == {None, b"a"}
    assert {data for (data,) in left(lambda machine: prepare(machine, is_synced=True), b"dir/a")} == {None}


@pytest.mark.parametrize("synced", [b"one", b"two", None])
def test_a_file_that_goes_to_another_directory_is_in_one_of_both(synced: bytes | None) -> None:
    def prepare(machine: Machine) -> None:
        machine.files.mkdir(b"one", 0o755)
        machine.files.mkdir(b"two", 0o755)
        machine.put(b"one/a", b"a", is_synced=True)
        machine.files.sync()
        machine.now += 1
        machine.files.rename(b"one/a", b"two/a")
        if synced is not None:
            machine.sync(synced)

    found = set(left(prepare, b"one/a", b"two/a"))
    assert found == ({(b"a", None), (None, b"a")} if synced is None else {(None, b"a")})


def test_two_names_are_one_file() -> None:
    def prepare(machine: Machine) -> None:
        machine.put(b"a", b"bytes", is_synced=True)
        machine.files.link(b"a", b"b")
        machine.sync(b".")
        machine.files.unlink(b"a")
        machine.put(b"b", b" more", flags=os.O_APPEND, is_synced=True)

    assert {one or b for one, b in left(prepare, b"a", b"b")} == {b"bytes more"}
    assert all(one in (None, b) for one, b in left(prepare, b"a", b"b"))


# Programs

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(min_size=1, max_size=20)),
        st.tuples(st.just("put"), st.binary(min_size=1, max_size=20), st.integers(0, 60)),
        st.tuples(st.just("resize"), st.integers(0, 60)),
        st.tuples(st.just("sync")),
    ),
    max_size=20,
)


class Versions:
    """The values that each byte of a file may have, and the sizes it may have."""

    def __init__(self) -> None:
        self.data = b""
        self.smallest = 0
        self.seen: list[set[int]] = []

    def become(self, data: bytes) -> None:
        """Set the content of the file."""
        self.data, self.smallest = data, min(self.smallest, len(data))
        self.seen += [set() for _ in range(len(data) - len(self.seen))]
        for seen, byte in zip(self.seen, data, strict=False):
            seen.add(byte)

    def sync(self) -> None:
        """Make the present content the only possible one."""
        self.seen = [{byte} for byte in self.data]
        self.smallest = len(self.data)

    def check(self, data: bytes) -> None:
        assert self.smallest <= len(data) <= len(self.seen)
        assert all(byte in seen for byte, seen in zip(data, self.seen, strict=False))


def take(machine: Machine, fd: int, step: tuple[Any, ...], data: bytes) -> bytes:
    """Take a step; return the content of the file afterwards."""
    name, files = step[0], machine.files
    if name == "append":
        files.pwrite(fd, step[1], len(data))
        return data + step[1]
    if name == "put":
        files.pwrite(fd, step[1], step[2])
        return data[: step[2]].ljust(step[2], b"\0") + step[1] + data[step[2] + len(step[1]) :]
    files.ftruncate(fd, step[1])
    return data[: step[1]].ljust(step[1], b"\0")


@settings(max_examples=120, deadline=None)
@given(STEPS, st.integers(0, 1000))
def test_after_any_program_each_byte_is_what_it_was_at_some_time_since_the_last_sync(
    steps: list[tuple[Any, ...]], seed: int
) -> None:
    machine, versions = Machine(seed), Versions()
    fd = machine.files.open(b"a", CREAT | BOTH, 0o644)
    machine.sync(b".")
    for step in steps:
        if step[0] == "sync":
            machine.files.fsync(fd)
            machine.now += 1
            versions.sync()
        else:
            versions.become(take(machine, fd, step, versions.data))
    assert machine.files.pread(fd, 10**6, 0) == versions.data
    machine.lose_power()
    data = machine.get(b"a")
    assert data is not None
    versions.check(data)
    assert machine.disk.used == len(data)
    machine.lose_power()
    assert machine.get(b"a") == data, "what has been left is durable"


# Faults


def failing(machine: Machine) -> Iterator[tuple[str, set[str], Callable[[], Any]]]:
    """Return calls, the faults that they fail with, and how to make them."""
    files = machine.files
    fd = files.open(b"a", BOTH, 0)
    directory = files.open(b".", READ, 0)
    yield "read", {READ_FAILS}, lambda: files.read(fd, 10)
    yield "pread", {READ_FAILS}, lambda: files.pread(fd, 10, 0)
    yield "listdir", {READ_FAILS}, lambda: files.listdir(b".")
    yield "write", {WRITE_FAILS}, lambda: files.write(fd, b"x")
    yield "pwrite", {WRITE_FAILS}, lambda: files.pwrite(fd, b"x", 0)
    yield "truncate", {TRUNCATE_FAILS}, lambda: files.truncate(b"a", 1)
    yield "ftruncate", {TRUNCATE_FAILS}, lambda: files.ftruncate(fd, 1)
    yield "open and cut", {TRUNCATE_FAILS}, lambda: files.open(b"a", WRITE | TRUNC, 0)
    yield "open anew", {WRITE_FAILS}, lambda: files.open(b"new", WRITE | CREAT, 0o644)
    yield "fsync", {SYNC_FAILS}, lambda: files.fsync(fd)
    yield "fdatasync", {SYNC_FAILS}, lambda: files.fdatasync(fd)
    yield "fsync of a directory", {SYNC_FAILS}, lambda: files.fsync(directory)
    yield "sync", {SYNC_FAILS}, files.sync
    yield "mkdir", {WRITE_FAILS}, lambda: files.mkdir(b"dir", 0o755)
    yield "link", {WRITE_FAILS}, lambda: files.link(b"a", b"b")
    yield "symlink", {WRITE_FAILS}, lambda: files.symlink(b"a", b"c")
    yield "rename", {WRITE_FAILS}, lambda: files.rename(b"a", b"d")
    yield "unlink", {WRITE_FAILS}, lambda: files.unlink(b"a")
    yield "rmdir", {WRITE_FAILS}, lambda: files.rmdir(b"empty")
    yield "chmod", {WRITE_FAILS}, lambda: files.chmod(b"a", 0o600)
    yield "utime", {WRITE_FAILS}, lambda: files.utime(b"a", (0, 0))
    yield "copyfile", {READ_FAILS, WRITE_FAILS}, lambda: files.copyfile(b"a", b"copy")
    yield "rmtree", {READ_FAILS, WRITE_FAILS}, lambda: files.rmtree(b"empty")


def prepared() -> Machine:
    machine = Machine()
    machine.put(b"a", b"bytes")
    machine.files.mkdir(b"empty", 0o755)
    return machine


@pytest.mark.parametrize("fault", [READ_FAILS, WRITE_FAILS, TRUNCATE_FAILS, SYNC_FAILS])
def test_faults_of_the_disk_are_failures_of_calls(fault: str) -> None:
    failed, expected = set(), set()
    for name, faults, _ in failing(prepared()):
        machine = prepared()
        (make,) = (make for other, _, make in failing(machine) if other == name)
        machine.disk.faults.add(fault)
        before = machine.disk.failures
        try:
            make()
        except OSError as error:
            failed.add((name, error.errno, machine.disk.failures - before))
        if fault in faults:
            expected.add((name, errno.EIO, 1))
    assert failed == expected


def test_short_writes_are_continued() -> None:
    machine = Machine()
    machine.disk.faults.add(SHORT_WRITES)
    data = bytes(range(256)) * 4
    fd = machine.files.open(b"a", CREAT | WRITE, 0o644)
    assert machine.files.write(fd, data) < len(data)
    machine.files.ftruncate(fd, 0)
    machine.files.lseek(fd, 0, os.SEEK_SET)
    _write_all(machine.files, fd, data)
    assert machine.get(b"a") == data


def test_a_full_disk_takes_what_it_has_room_for_and_what_goes_over_other_bytes() -> None:
    machine = Machine()
    machine.put(b"a", b"12345")
    machine.disk.capacity = 8
    fd = machine.files.open(b"a", BOTH, 0)
    assert machine.files.pwrite(fd, b"abcdef", 4) == 4
    assert machine.files.pwrite(fd, b"over", 1) == 4
    assert machine.get(b"a") == b"1overbcd"
    for call in (
        lambda: machine.files.pwrite(fd, b"x", 8),
        lambda: machine.files.mkdir(b"dir", 0o755),
        lambda: machine.files.ftruncate(fd, 9),
    ):
        with pytest.raises(OSError, match="No space left"):
            call()
    machine.files.unlink(b"a")
    machine.put(b"b", b"12345")
    assert machine.disk.used == 5


def test_nothing_can_be_done_after_the_end_of_the_process() -> None:
    machine = prepared()
    calls = list(failing(machine))
    fd = machine.files.open(b"a", READ, 0)
    more = [
        lambda: machine.files.stat(b"a"),
        lambda: machine.files.lseek(fd, 0, 0),
        lambda: machine.files.close(fd),
        lambda: machine.files.glob(b"*"),
        lambda: machine.files.umask(0),
        lambda: machine.files.tempdir(None, None),
        machine.files.cwd,
    ]
    after = SimulatedFiles(machine.disk.successor(), Random(1))
    for call in [*(make for _, _, make in calls), *more]:
        with pytest.raises(OSError, match="Input/output error"):
            call()
    assert after.listdir(b".") == [b"a", b"empty"]
    with pytest.raises(OSError, match="Bad file descriptor"):
        after.read(fd, 1)


def test_the_disk_tells_of_what_programs_do() -> None:
    """The trace has the disk calls of programs, so that the power may be cut at any of them."""
    machine, told = Machine(), []
    machine.disk.on_operation = told.append
    machine.put(b"a", b"x", is_synced=True)
    machine.files.rename(b"a", b"b")
    machine.sync(b".")
    machine.files.unlink(b"b")
    assert told == ["create", "write", "sync", "rename", "sync of a directory", "remove"]


def test_calls_take_the_time_of_the_disk() -> None:
    machine = prepared()
    machine.disk.latency, machine.disk.sync_delay = (0.25, 0.25), 1.0
    fd = machine.files.open(b"a", BOTH, 0)
    for call, seconds in (
        (lambda: machine.files.write(fd, b"x"), 0.25),
        (lambda: machine.files.read(fd, 1), 0.25),
        (lambda: machine.files.fsync(fd), 1.25),
    ):
        machine.disk.restart_meter()
        call()
        assert machine.disk.restart_meter() == pytest.approx(seconds)
    assert LATENCY[1] <= 0.001, "a healthy one takes less"
