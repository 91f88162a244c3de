"""Campaigns of `make soak` in a size for every day, with another seed each time. A failure prints seed and case."""

from __future__ import annotations

import asyncio
import random

import pytest

from box.journal.snapshot import SnapshotWriter
from box.journal.wal import WalWriter
from test.soak import damage, disk_faults, kills, mixed
from test.soak.shares import Sweep


@pytest.fixture
def seed() -> int:
    return random.randrange(1, 1_000_000)


@pytest.mark.parametrize("mode", kills.MODES)
def test_kills(mode: str, seed: int) -> None:
    """Nothing acknowledged is lost, nothing is there in part."""
    assert kills.run_campaign(seed, 50, (mode,))


def test_mixed_clients(seed: int) -> None:
    """Fifty clients who do everything at once leave the sums right, the rows whole and nothing behind."""
    assert mixed.run_campaign(seed, 8)


def test_disk_faults(seed: int) -> None:
    """What was refused leaves nothing, and the instance lives or ends in order."""
    assert disk_faults.run_campaign(seed, Sweep(40))


def test_damage(seed: int) -> None:
    """A changed byte is an error or skips rows; it never makes other rows."""
    assert damage.run_campaign(seed, Sweep(60))


FSYNC = {"wal_mode": "fsync"}


def _run(*faults: disk_faults.Fault) -> disk_faults.Run:
    run = disk_faults.Run(disk_faults.CallFaults(*faults), FSYNC)
    asyncio.run(run.run())
    return run


def _call(name: str, place: int) -> int:
    """The number of a call whose name begins so."""
    names = disk_faults.count_calls(FSYNC)
    return [number for number, found in enumerate(names, 1) if found.startswith(name)][place]


def test_the_campaign_sees_a_refused_row_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that does not cut its file back after a failed sync is found out, one that does is not.

    The sync is one behind the last checkpoint of the first life: logs before it are not read again. The first sync of a
    file is that of its header.
    """
    number = _call("sync ./00000000000000000015.xlog", 1)
    _run((number, "fail"))
    monkeypatch.setattr(WalWriter, "_cut_back", lambda self: None)
    with pytest.raises(AssertionError):
        _run((number, "fail"))


def test_the_campaign_sees_a_checkpoint_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that is not renamed and says that it is done loses rows with the logs that it made superfluous."""
    _run()
    monkeypatch.setattr(SnapshotWriter, "commit", lambda self: None)
    with pytest.raises(AssertionError):
        _run()


def test_a_first_start_that_fails_is_nobody(seed: int) -> None:
    """A log without the snapshot that it goes on from would belong to an instance that never was."""
    writes = _call("write ./00000000000000000000.snap.inprogress", 1)
    for kind in ("fail", "late"):
        _run((writes, kind))


def test_a_write_that_cannot_be_taken_back_ends_the_instance() -> None:
    """Its rows are there after the next start or not; nobody was told that they are not."""
    number = _call("sync ./00000000000000000000.xlog", 4)
    for first in ("fail", "late"):
        for second in ("fail", "late"):
            assert _run((number, first), (number + 1, second)).has_panicked


@pytest.mark.parametrize("second", [(), ((1, "fail"),)])
def test_a_snapshot_whose_size_cannot_be_told(second: tuple[tuple[int, str], ...]) -> None:
    """It is read all the same, and one that cannot be read is an error of Tarantool's kind."""
    options = {"wal_mode": "write"}
    calls = disk_faults.count_calls(options)
    (*_, at) = [number for number, call in enumerate(calls, 1) if call.startswith("size") and call.endswith(".snap")]
    faults = [(at, "fail"), *((at + distance, kind) for distance, kind in second)]
    asyncio.run(disk_faults.Run(disk_faults.CallFaults(*faults), options).run())
