"""Rules of simulated disks: what is durable, and from when on."""

from __future__ import annotations

from random import Random

import pytest

from box.testing.simulation.disk import SimulatedDisk


class Clock:
    """Seconds."""

    now = 0.0


def make(clock: Clock, seed: int = 1) -> SimulatedDisk:
    return SimulatedDisk(lambda: clock.now, lambda: clock.now, Random(seed))


def kept(after: float) -> set[tuple[bool, int]]:
    """A file is written, synced, given its name, and the name is synced; so many seconds after that began, in which the
    clock stood, the power goes: whether the name is there, and with how many of its four bytes, in any case."""
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
    """Nor is what comes behind it there before: a name that was left with half of its file stopped a node for good."""
    assert kept(1.0) == {(True, 4)}
    assert kept(0.0) == {(False, 0)}
    assert set().union(*(kept(step * 5e-5) for step in range(40))) == {(False, 0), (True, 4)}


def test_a_sync_counts_though_another_one_has_begun() -> None:
    """Who syncs a file that another thread has just made does not undo what that had waited for: a name was left with a
    part of its meta, and a node could not start."""
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
