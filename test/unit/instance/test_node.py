"""The life of an instance: it is put together, started, started again after a failure, and stopped."""

from __future__ import annotations

import ast
import asyncio
import gc
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

import box.instance
from box.errors import BoxError, ErrorCode
from box.instance.mode import ReadOnlyReason
from box.instance.node import Instance
from box.journal.storage import MemoryStorage
from box.schema.ids import SpaceId
from box.txn.pending import completed
from box.wire.change import Request

QUIET = {"log_level": 1}
PARTS = (
    "schema",
    "tuples",
    "limbo",
    "mode",
    "state",
    "synchro",
    "txns",
    "dml",
    "checkpoints",
    "replication",
    "membership",
    "iproto",
)
KEPT = ("resources", "config", "log", "errinj", "sessions", "stats", "round", "mode_changes")


def with_instance(body: Callable[[Instance], Awaitable[None]], disk: MemoryStorage | None = None) -> None:
    """Run `body` with an instance that is not configured, and close it afterwards."""

    async def run() -> None:
        instance = Instance(disk=disk or MemoryStorage())
        try:
            await body(instance)
        finally:
            await instance.close()

    asyncio.run(run())


async def fail_to_start(instance: Instance, code: int = ErrorCode.BOOTSTRAP_READONLY, **options: Any) -> None:
    with pytest.raises(BoxError) as caught:
        await instance.configure(QUIET | {"read_only": True} | options)
    assert caught.value.code == code


async def put(instance: Instance, name: str) -> None:
    ctx = instance.new_context()
    await instance.dml.execute(ctx, instance.schema.space(SpaceId.SCHEMA), Request.replace(msgpack.packb([name])))


class SlowSync(MemoryStorage):
    """A disk whose directory syncs wait for `may_end` while it is `slow`."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.is_waiting, self.may_end = threading.Event(), threading.Event()

    def sync_directory(self, directory: str) -> None:
        if self.slow:
            self.is_waiting.set()
            assert self.may_end.wait(20), "the loop stood still"


def test_parts_are_made_for_whoever_asks_first() -> None:
    """Parts are made when something asks for one; an instance that is never configured has none."""

    async def body(instance: Instance) -> None:
        assert (instance.status, instance.is_configured) == ("unconfigured", False)
        with pytest.raises(AttributeError, match="'Instance' object has no attribute 'nothing'"):
            _ = instance.nothing  # type: ignore[attr-defined]
        other = Instance(disk=MemoryStorage())
        await other.close()
        await other.let_go()
        assert not set(PARTS) & set(vars(other))
        assert instance.new_context().credentials.is_admin
        assert set(PARTS) <= set(vars(instance))
        assert instance.schema.errinj is instance.errinj

    with_instance(body)


@pytest.mark.parametrize("is_closed", [False, True])
def test_the_loop_lives_on_while_a_start_syncs_what_it_has_read(is_closed: bool) -> None:
    """The loop runs while a start syncs recovered rows; a start that is cancelled then opens no log."""
    disk, options = SlowSync(), QUIET | {"wal_mode": "fsync"}

    async def found(instance: Instance) -> None:
        await instance.configure(options)

    async def body(instance: Instance) -> None:
        disk.slow = True
        start = asyncio.create_task(instance.configure(options))
        async with asyncio.timeout(20):
            while not disk.is_waiting.is_set():
                await asyncio.sleep(0.001)
        assert not start.done()
        assert instance.status == "loading"
        close = asyncio.create_task(instance.close()) if is_closed else None
        await asyncio.sleep(0)
        disk.may_end.set()
        if close is None:
            await start
            assert instance.status == "running"
            return
        await close
        with pytest.raises(BoxError, match="fiber is cancelled"):
            await start
        assert instance.journal is None

    with_instance(found, disk)
    with_instance(body, disk)


def test_a_failed_start_leaves_an_instance_as_new() -> None:
    """After a failed start all parts are new, longer-lived objects stay, and options have their defaults."""

    async def body(instance: Instance) -> None:
        parts = {name: getattr(instance, name) for name in PARTS}
        kept = {name: getattr(instance, name) for name in KEPT}
        await fail_to_start(instance, checkpoint_count=7)
        assert instance.status == "unconfigured"
        assert instance.mode.reason is ReadOnlyReason.LOADING
        assert instance.config["checkpoint_count"] == 2
        assert instance.journal is None
        assert [name for name, part in parts.items() if getattr(instance, name) is part] == []
        assert [name for name, part in kept.items() if getattr(instance, name) is not part] == []
        await instance.configure(QUIET)
        assert (instance.status, instance.mode.reason) == ("running", None)
        await put(instance, "a")

    with_instance(body)


def test_an_attempt_takes_the_uuid_of_the_last() -> None:
    """The next attempt has the instance UUID of the failed one, because another instance may have registered it."""

    async def body(instance: Instance) -> None:
        seen = []
        instance.on_schema_init.append(lambda: seen.append(instance.state))
        await fail_to_start(instance)
        await instance.configure(QUIET)
        first, second = seen
        assert first is not second
        assert first.instance_uuid == second.instance_uuid != first.replicaset_uuid

    with_instance(body)


def test_fibers_and_log_share_a_round_after_a_failed_start() -> None:
    """After a failed start, writes of fibers in one round still go to the log as one batch."""

    async def body(instance: Instance) -> None:
        fiber_round = instance.round
        await fail_to_start(instance)
        await instance.configure(QUIET)
        fiber_round.is_held = True
        ctx = instance.new_context()
        request = Request.replace(msgpack.packb(["a"]))
        outcome = instance.dml.write(ctx, instance.schema.space(SpaceId.SCHEMA), request)
        assert fiber_round.journal is instance.journal
        fiber_round.is_held = False
        assert instance.journal is not None
        instance.journal.flush()
        await completed(outcome)

    with_instance(body)


def test_failed_starts_leave_no_listeners() -> None:
    """Parts of a failed start do not listen to error injections any more."""

    async def body(instance: Instance) -> None:
        await instance.configure(QUIET)
        expected = {name: len(listeners) for name, listeners in instance.errinj._listeners.items()}
        await instance.close()

        again = Instance(disk=MemoryStorage())
        for _ in range(3):
            await fail_to_start(again, memtx_use_mvcc_engine=True)
        await again.configure(QUIET | {"memtx_use_mvcc_engine": True})
        assert {name: len(listeners) for name, listeners in again.errinj._listeners.items()} == expected
        await again.close()

    with_instance(body)


def test_a_wait_for_the_mode_outlives_a_failed_start() -> None:
    """A caller that waits for a writable instance is woken by a later attempt that succeeds."""

    async def body(instance: Instance) -> None:
        waiting = asyncio.ensure_future(instance.mode_changes.until(lambda: not instance.mode.is_read_only))
        await fail_to_start(instance)
        assert not waiting.done()
        await instance.configure(QUIET)
        async with asyncio.timeout(10):
            await waiting

    with_instance(body)


def test_read_only_is_told_with_its_reason() -> None:
    """`read_only` makes writes fail with its reason, and they succeed when it is off."""

    async def body(instance: Instance) -> None:
        await instance.configure(QUIET)
        await instance.configure({"read_only": True})
        assert instance.mode.reason is ReadOnlyReason.CONFIG
        with pytest.raises(BoxError) as caught:
            await put(instance, "a")
        assert caught.value.code == ErrorCode.READONLY
        await instance.configure({"read_only": False})
        assert instance.mode.reason is None
        await put(instance, "a")

    with_instance(body)


def test_an_instance_starts_read_only() -> None:
    """`read_only` applies from the first moment of a start with files."""
    disk = MemoryStorage()

    async def found(instance: Instance) -> None:
        await instance.configure(QUIET)
        await put(instance, "a")

    async def restart(instance: Instance) -> None:
        await instance.configure(QUIET | {"read_only": True})
        assert (instance.status, instance.mode.reason) == ("running", ReadOnlyReason.CONFIG)
        assert instance.state.vclock[1] > 0

    with_instance(found, disk)
    with_instance(restart, disk)


def test_the_parts_of_a_start_do_not_know_the_instance() -> None:
    """The parts of an instance do not import `box.instance.node`, not even for annotations."""
    package = Path(box.instance.__file__).parent
    found = []
    for path in sorted(package.parent.rglob("*.py")):
        if any(path.is_relative_to(package.parent / above) for above in ("dbapi", "embed", "sync", "testing")):
            continue
        for statement in ast.walk(ast.parse(path.read_text())):
            if isinstance(statement, ast.ImportFrom) and statement.module == "box.instance.node":
                found.append(f"{path}:{statement.lineno}")
    assert found == []


def test_an_empty_instance_starts_in_short_turns() -> None:
    """A bootstrap yields between system spaces, whose rows would take most of a start in one turn."""

    async def body(instance: Instance) -> None:
        start = asyncio.ensure_future(instance.configure(QUIET))
        turns = []
        while not start.done():
            before = time.thread_time()
            await asyncio.sleep(0)
            turns.append(time.thread_time() - before)
        await start
        assert max(turns) < sum(turns) / 2

    gc.disable()
    try:
        with_instance(body)
    finally:
        gc.enable()
