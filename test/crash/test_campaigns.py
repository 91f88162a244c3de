"""Short runs of the campaigns of `make soak`, each with a new random seed. A failure prints the seed and the case."""

from __future__ import annotations

import asyncio
import random

import pytest

from box.journal.snapshot import SnapshotWriter
from box.journal.wal import WalWriter
from test.soak import damage, disk_faults, index_damage, index_kills, kills, mixed, sql_damage, sql_kills
from test.soak.shares import Sweep


@pytest.fixture
def seed() -> int:
    return random.randrange(1, 1_000_000)


@pytest.mark.parametrize("mode", kills.MODES)
def test_kills(mode: str, seed: int) -> None:
    """After kills every acknowledged transaction is there, and none is there in part."""
    assert kills.run_campaign(seed, 10, (mode,))


def test_mixed_clients(seed: int) -> None:
    """Fifty clients with mixed requests leave correct sums and rows, and no fibers or connections behind."""
    assert mixed.run_campaign(seed, 8)


def test_disk_faults(seed: int) -> None:
    """After disk faults refused writes are gone, acknowledged ones stay, and the instance goes on or ends in order."""
    assert disk_faults.run_campaign(seed, Sweep(40))


def test_damage(seed: int) -> None:
    """A damaged file stops the start or loses rows; it never makes wrong rows."""
    assert damage.run_campaign(seed, Sweep(60))


def test_sql_kills(seed: int) -> None:
    """After kills SQL tables have the rows of each acknowledged step, and their constraints hold."""
    assert sql_kills.run_campaign(seed, 2)


def test_sql_damage(seed: int) -> None:
    """Damaged files of SQL tables stop the start or bring an earlier state, whose constraints hold."""
    assert sql_damage.run_campaign(seed, Sweep(8))


def test_index_kills(seed: int) -> None:
    """After kills all kinds of indexes find the rows of each acknowledged step."""
    assert index_kills.run_campaign(seed, 2)


def test_index_damage(seed: int) -> None:
    """Damaged files of all kinds of indexes stop the start or bring an earlier state that the indexes agree on."""
    assert index_damage.run_campaign(seed, Sweep(8))


FSYNC = {"wal_mode": "fsync"}


def _run(*faults: disk_faults.Fault) -> disk_faults.Run:
    run = disk_faults.Run(disk_faults.CallFaults(*faults), FSYNC)
    asyncio.run(run.run())
    return run


def _call(name: str, place: int) -> int:
    """Return the number of a call of the disk: of all whose name begins with `name`, the one at `place` (from 0)."""
    names = disk_faults.count_calls(FSYNC)
    return [number for number, found in enumerate(names, 1) if found.startswith(name)][place]


def test_the_campaign_sees_a_refused_row_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign fails if the log's writer does not cut its file back after a failed sync, and passes if it does.

    The fault is in a sync after the last checkpoint of the first start, because older logs are not read again. Place 1:
    the first sync of a file is that of its header.
    """
    number = _call("sync ./00000000000000000015.xlog", 1)
    _run((number, "fail"))
    monkeypatch.setattr(WalWriter, "_cut_back", lambda self: None)
    with pytest.raises(AssertionError):
        _run((number, "fail"))


def test_the_campaign_sees_a_checkpoint_without_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign fails if checkpoints never rename their file: the logs removed after one take rows with them."""
    _run()
    monkeypatch.setattr(SnapshotWriter, "commit", lambda self: None)
    with pytest.raises(AssertionError):
        _run()


def test_a_failed_bootstrap_leaves_no_log(seed: int) -> None:
    """A bootstrap whose snapshot fails leaves no log file, so that the next start bootstraps anew."""
    writes = _call("write ./00000000000000000000.snap.inprogress", 1)
    for kind in ("fail", "late"):
        _run((writes, kind))


def test_a_write_that_cannot_be_cut_back_ends_the_instance() -> None:
    """A failed write whose bytes cannot be cut off panics the instance, and no client is told that it failed."""
    number = _call("sync ./00000000000000000000.xlog", 4)
    for first in ("fail", "late"):
        for second in ("fail", "late"):
            assert _run((number, first), (number + 1, second)).has_panicked


@pytest.mark.parametrize("second", [(), ((1, "fail"),)])
def test_a_start_reads_a_snapshot_of_unknown_size(second: tuple[tuple[int, str], ...]) -> None:
    """A start reads a snapshot whose size the disk refuses to tell, and raises a BoxError if reading fails, too."""
    options = {"wal_mode": "write"}
    calls = disk_faults.count_calls(options)
    (*_, at) = [number for number, call in enumerate(calls, 1) if call.startswith("size") and call.endswith(".snap")]
    faults = [(at, "fail"), *((at + distance, kind) for distance, kind in second)]
    asyncio.run(disk_faults.Run(disk_faults.CallFaults(*faults), options).run())
