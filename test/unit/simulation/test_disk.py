"""Simulated disks: which data is durable, and when."""

from __future__ import annotations

from random import Random

import pytest

from box.testing.simulation.disk import SimulatedDisk


class Clock:
    """A clock that tests set, in seconds."""

    now = 0.0


def make(clock: Clock, seed: int = 1) -> SimulatedDisk:
    return SimulatedDisk(lambda: clock.now, lambda: clock.now, Random(seed))


def kept(after: float) -> set[tuple[bool, int]]:
    """Write a file, sync it, rename it and sync the directory, then cut the power so many seconds later.

    Returns, for all possible outcomes, whether the name is there and with how many of its four bytes.
    """
    found = set()
    for seed in range(40):
        clock = Clock()
        disk = make(clock, seed)
        file = disk.create("log.part")
        file.write(b"meta")
        file.sync()
        disk.rename("log.part", "log")
        disk.sync_directory(".")
        clock.now = after
        disk.lose_power()
        found.add((disk.exists("log"), disk.size("log") if disk.exists("log") else 0))
    return found


def test_a_sync_counts_when_it_is_over() -> None:
    """A sync takes effect at its end, and so does a rename after it: else a name was left with half of its file."""
    assert kept(1.0) == {(True, 4)}
    assert kept(0.0) == {(False, 0)}
    assert set().union(*(kept(step * 5e-5) for step in range(40))) == {(False, 0), (True, 4)}


def test_a_sync_counts_though_another_one_has_begun() -> None:
    """A sync of a file takes effect though another one of it has begun: else a name was left with a part of its header."""
    sizes = set()
    for seed in range(20):
        clock = Clock()
        disk = make(clock, seed)
        disk.sync_delay = 1.0
        file = disk.create("a")
        file.write(b"four")
        file.sync()
        disk.sync_directory(".")
        clock.now += 0.5
        file.write(b"more")
        file.sync()
        clock.now += 0.75
        disk.lose_power()
        sizes.add(disk.size("a"))
    assert min(sizes) == 4
    assert max(sizes) == 8


def test_an_end_at_an_operation_comes_before_the_end_of_its_sync() -> None:
    clock = Clock()
    sizes = set()
    for operation in ("sync", "rename"):
        for seed in range(20):
            disk = make(clock, seed)
            disk.on_operation = lambda done, disk=disk, wanted=operation: done == wanted and disk.detach(done)  # type: ignore[misc]
            file = disk.create("a")
            file.write(b"four")
            file.sync()
            if operation == "rename":
                disk.rename("a", "b")
            with pytest.raises(OSError, match=r"Input/output error"):
                file.sync()
            after = disk.successor()
            after.lose_power()
            sizes |= {(operation, after.size(name)) for name in ("a", "b") if after.exists(name)}
    assert {size for operation, size in sizes if operation == "rename"} == {4}
    assert {size for operation, size in sizes if operation == "sync"} > {0, 4}
