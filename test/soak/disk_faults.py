"""The campaign "disk-faults": repeats one scenario, each time with a fault in another call of the disk, or two faults.

The scenario starts an instance four times on one disk:

    first    bootstrap, single and concurrent writes, three checkpoints (the first beside writes), deletes, close
    second   start from the files, writes, a checkpoint beside a write, close; faults may still happen
    third    the disk works again: the start, writes and a checkpoint must succeed
    fourth   start from that checkpoint

Kinds of faults:

    fail     the call does nothing and raises OSError
    late     the call does its work and raises OSError; a write does half of it
    short    a write takes half of its bytes and returns their number; other calls succeed
    delay    the call takes a few milliseconds longer and succeeds

Checked after each step: acknowledged writes are there, refused ones are not, each transaction is there completely or
not at all. Errors are BoxErrors, every call and the close return in time, and no thread is left. After a panic of the
instance, where Tarantool's process would have ended, writes that got no answer may be there or not.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.instance.node import Instance
from box.journal.storage import AppendFile, DirectoryLock, MemoryStorage, ReadFile
from box.schema.ids import SpaceId
from box.txn.pending import completed
from box.wire.change import Request
from test.soak.shares import Sweep

KINDS: Final = ("fail", "late", "short", "delay")
PATIENCE: Final = 120.0
"""Seconds for one start with its work, and for one close."""
_DELAY: Final = 0.003
"""Seconds of a "delay": longer than any call takes, short enough for thousands of runs."""
_SPACE: Final = 512  # the first id of a user's space
_ABSENT: Final = None

Fault = tuple[int, str]
"""The number of a call of the disk, from 1, and the kind of the fault."""


class CallFaults:
    """Counts the calls of a disk, in `calls` by name, and makes the chosen ones fail. Any thread may call it."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = dict(faults)
        self.calls: list[str] = []
        self._lock = threading.Lock()
        self._random = random.Random(sum(number for number, _ in faults))

    def heal(self) -> None:
        self.faults = {}

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the work of a call other than a write, as its fault allows.

        Raises:
            OSError: the fault is "fail" or "late".
        """
        kind = self._next(name)
        if kind == "fail":
            raise self._error()
        result = work()
        if kind == "late":
            raise self._error()
        return result

    def write(self, path: str, data: bytes, work: Callable[[bytes], int]) -> int:
        """Write all bytes, half of them or none, as the fault of this call allows; return the number written.

        Raises:
            OSError: the fault is "fail" or "late".
        """
        kind = self._next(f"write {path}")
        if kind is None:
            return work(data)
        if kind == "fail":
            raise self._error()
        count = work(data[: (len(data) + 1) // 2])
        if kind == "late":
            raise self._error()
        return count

    def _next(self, name: str) -> str | None:
        with self._lock:
            self.calls.append(name)
            kind = self.faults.get(len(self.calls))
        if kind == "delay":
            time.sleep(_DELAY)
            return None
        return kind

    def _error(self) -> OSError:
        number = self._random.choice((errno.EIO, errno.ENOSPC, errno.EDQUOT))
        return OSError(number, os.strerror(number))


class _FaultyFile:
    """An open file whose calls may have faults."""

    def __init__(self, file: Any, faults: CallFaults) -> None:
        self.path: str = file.path
        self._file = file
        self._faults = faults

    def write(self, data: bytes) -> int:
        return self._faults.write(self.path, data, self._file.write)

    def truncate(self, size: int) -> None:
        self._faults.call(f"truncate {self.path}", lambda: self._file.truncate(size))

    def sync(self) -> None:
        self._faults.call(f"sync {self.path}", self._file.sync)

    def mark_pending(self, start: int | None) -> None:
        self._file.mark_pending(start)

    def read(self, offset: int, size: int) -> bytes:
        data: bytes = self._faults.call(f"read {self.path}", lambda: self._file.read(offset, size))
        return data

    def counted_size(self) -> int:
        size: int = self._file.counted_size()
        return size

    def close(self) -> None:
        self._file.close()


class FaultyDisk:
    """A disk in memory whose calls may have faults."""

    def __init__(self, faults: CallFaults) -> None:
        self._call = faults.call
        self._faults = faults
        self._files = MemoryStorage()

    def now(self) -> float:
        return self._files.now()

    def names(self, directory: str) -> list[str]:
        found: list[str] = self._call(f"names {directory}", lambda: self._files.names(directory))
        return found

    def create(self, path: str) -> AppendFile:
        return _FaultyFile(self._call(f"create {path}", lambda: self._files.create(path)), self._faults)

    def append(self, path: str) -> AppendFile:
        return _FaultyFile(self._call(f"append {path}", lambda: self._files.append(path)), self._faults)

    def open(self, path: str) -> ReadFile:
        return _FaultyFile(self._call(f"open {path}", lambda: self._files.open(path)), self._faults)

    def size(self, path: str) -> int:
        size: int = self._call(f"size {path}", lambda: self._files.size(path))
        return size

    def exists(self, path: str) -> bool:
        found: bool = self._call(f"exists {path}", lambda: self._files.exists(path))
        return found

    def rename(self, old: str, new: str) -> None:
        self._call(f"rename {old}", lambda: self._files.rename(old, new))

    def remove(self, path: str) -> None:
        self._call(f"remove {path}", lambda: self._files.remove(path))

    def touch(self, path: str) -> None:
        self._call(f"touch {path}", lambda: self._files.touch(path))

    def sync_directory(self, directory: str) -> None:
        self._call(f"sync {directory}", lambda: None)

    def lock(self, directory: str) -> DirectoryLock | None:
        self._call("lock", lambda: None)  # a fault after the lock is taken would leave it with no owner to release it
        return self._files.lock(directory)


class Expectation:
    """The values that each key may have: one after an acknowledged write, more after one without an answer.

    `pairs` are keys that every transaction changes together.
    """

    def __init__(self) -> None:
        self.values: dict[int, set[str | None]] = {}
        self.pairs: list[tuple[int, int]] = []

    def of(self, key: int) -> set[str | None]:
        return self.values.get(key, {_ABSENT})

    def acknowledged(self, changes: dict[int, str | None]) -> None:
        for key, value in changes.items():
            self.values[key] = {value}

    def unknown(self, changes: dict[int, str | None]) -> None:
        for key, value in changes.items():
            self.values[key] = self.of(key) | {value}

    def check(self, found: dict[int, str], when: str) -> None:
        for key in self.values.keys() | found.keys():
            assert found.get(key) in self.of(key), f"{when}: {key} is {found.get(key)!r}, not of {self.of(key)}"
        for one, other in self.pairs:
            assert found.get(one) == found.get(other), f"{when}: half a transaction, keys {one} and {other} differ"


class Life:
    """One instance from its start to its close, with the writes and checks of the scenario."""

    def __init__(self, disk: FaultyDisk, expected: Expectation, options: dict[str, Any]) -> None:
        self.instance = Instance(disk=disk)
        self.instance.log.level = -1
        self._expected = expected
        self._options = {"checkpoint_count": 1, "wal_max_size": 700, "log_level": 0, **options}

    async def start(self) -> bool:
        """Start the instance; return False if the disk made that fail."""
        try:
            await self.instance.configure(self._options)
        except BoxError:
            return False
        return True

    async def make_space(self) -> bool:
        """Create what the test space lacks; return False if the disk made that fail."""
        rows: list[tuple[int, list[Any], tuple[Any, ...]]] = [
            (SpaceId.SPACE, [_SPACE, 1, "test", "memtx", 0, {}, []], (_SPACE,)),
            (SpaceId.INDEX, [_SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]], (_SPACE, 0)),
            (SpaceId.INDEX, [_SPACE, 1, "sk", "tree", {"unique": False}, [[1, "string"]]], (_SPACE, 1)),
        ]
        for space_id, row, key in rows:
            if not any(tuple(found[: len(key)]) == key for found in self._select(space_id, 0)):
                try:
                    await self._commit(space_id, [Request.replace(pack(row))])
                except BoxError:
                    return False
        return True

    async def write_together(self, *changes: dict[int, str | None]) -> None:
        """Write several transactions concurrently, then check the rows."""
        await asyncio.gather(*(self._write(change) for change in changes))
        self.check("after writes")

    async def write(self, changes: dict[int, str | None]) -> None:
        await self._write(changes)
        self.check("after a write")

    async def _write(self, changes: dict[int, str | None]) -> None:
        """Replace or delete (value None) keys in one transaction, and note which values they may have afterwards."""
        requests = [
            Request.replace(pack([key, value])) if value is not None else Request.delete([key])
            for key, value in changes.items()
        ]
        try:
            await self._commit(_SPACE, requests)
        except BoxError as error:
            refusal = error.message
        else:
            self._expected.acknowledged(changes)
            return
        if self.has_panicked:
            self._expected.unknown(changes)
        else:
            assert refusal == "Failed to write to disk", refusal

    async def _commit(self, space_id: int, requests: list[Request]) -> None:
        instance = self.instance
        ctx = instance.new_context()
        space = instance.schema.space(space_id)
        instance.txns.begin(ctx)
        for request in requests:
            instance.dml.write(ctx, space, request)
        await completed(instance.txns.commit(ctx))

    @property
    def has_panicked(self) -> bool:
        return self.instance.is_closed

    async def checkpoint(self) -> bool:
        try:
            await self.instance.checkpoints.make()
        except BoxError:
            return False
        return True

    def rows(self) -> dict[int, str]:
        """Return all rows by the primary index, and assert that the secondary one agrees."""
        by_key, by_value = self._select(_SPACE, 0), self._select(_SPACE, 1)
        assert sorted(by_value) == by_key
        return dict(by_key)

    def _select(self, space_id: int, index: int) -> list[Any]:
        instance = self.instance
        if space_id not in instance.schema.spaces or index not in instance.schema.space(space_id).indexes:
            return []
        found = instance.dml.reads.select(
            instance.new_context(), instance.schema.space(space_id), index, 2, 0, 2**32 - 1, []
        )
        return [unpack(raw) for raw in found]

    def check(self, when: str) -> None:
        if not self.has_panicked:
            self._expected.check(self.rows(), when)

    async def close(self) -> None:
        await self.instance.close()
        left = [thread.name for thread in threading.enumerate() if thread.name.startswith(("wal", "journal"))]
        assert not left, left


class Run:
    """The scenario with one set of faults. `run` raises AssertionError, or another error that escapes the instance."""

    def __init__(self, faults: CallFaults, options: dict[str, Any]) -> None:
        self.faults = faults
        self.disk = FaultyDisk(faults)
        self.expected = Expectation()
        self._options = options
        self.has_panicked = False

    async def run(self) -> None:
        await self._live(self._first)
        await self._live(self._second)
        self.faults.heal()
        await self._live(self._healed)
        await self._live(self._last)

    async def _live(self, scene: Callable[[Life], Any]) -> None:
        life = Life(self.disk, self.expected, self._options)
        try:
            async with asyncio.timeout(PATIENCE):
                if await life.start() and await life.make_space():
                    life.check("after a start")
                    await scene(life)
                else:
                    assert self.faults.faults, "no start on a disk without faults"
        finally:
            self.has_panicked |= life.has_panicked
            async with asyncio.timeout(PATIENCE):
                await life.close()

    async def _first(self, life: Life) -> None:
        self.expected.pairs.append((1, 2))
        await life.write({1: "first", 2: "first"})
        await life.write({3: "single"})
        await asyncio.gather(
            life.checkpoint(),
            life.write_together({1: "second", 2: "second"}, {4: "x" * 300}, {5: "y" * 300}),
        )
        await life.write({3: "changed"})
        await life.write_together({6: "six"}, {7: "seven"}, {4: None}, {8: "z" * 900})
        await life.checkpoint()
        await life.checkpoint()
        await life.write({1: "third", 2: "third"})
        await life.write({9: "last"})

    async def _second(self, life: Life) -> None:
        await life.write({1: "fourth", 2: "fourth"})
        await life.write_together({10: "a" * 400}, {11: "b" * 400})
        await asyncio.gather(life.checkpoint(), life.write({12: "beside"}))
        await life.write({13: "end"})

    async def _healed(self, life: Life) -> None:
        """Check that writes and checkpoints succeed on a disk that works again."""
        await life.write({1: "healed", 2: "healed", 14: "healed"})
        assert self.expected.of(14) == {"healed"}
        assert await life.checkpoint()
        await life.write({15: "after"})
        assert self.expected.of(15) == {"after"}

    async def _last(self, life: Life) -> None:
        """Do nothing: `_live` has checked the rows after the start."""


def count_calls(options: dict[str, Any]) -> list[str]:
    """Run the scenario without faults; return the names of the disk's calls up to the moment when it is healed."""
    faults = CallFaults()
    run = Run(faults, options)
    calls: list[str] = []
    heal = faults.heal

    def remember() -> None:
        calls.extend(faults.calls)
        heal()

    faults.heal = remember  # type: ignore[method-assign]
    asyncio.run(run.run())
    return calls


def choices(calls: int, chooser: random.Random, size: int) -> Iterator[tuple[Fault, ...]]:
    """Yield `size` sets of faults for a scenario that makes `calls` calls, in random order."""
    single = [((number, kind),) for number in range(1, calls + 1) for kind in KINDS]
    chooser.shuffle(single)
    for index in range(size):
        first = single[index % len(single)]
        # First all single faults, then pairs. A campaign too short for all single faults has half of each.
        if index < len(single) and (size > len(single) or index % 2):
            yield first
        else:
            distance = chooser.choice((1, 2, 3, 10)) if index >= 2 * len(single) else 1
            kind = chooser.choice(("fail", "fail", "late", "short"))
            yield (*first, (first[0][0] + distance, kind))


MODES: Final = ({"wal_mode": "write"}, {"wal_mode": "fsync"})


class Place(NamedTuple):
    """One run: the instance's options, the faults, and a text that names the calls they hit."""

    options: dict[str, Any]
    faults: tuple[Fault, ...]
    described: str


class Outcome(NamedTuple):
    """The result of one run: the text of the error, empty if all checks passed, and whether an instance panicked."""

    place: Place
    failure: str
    has_panicked: bool


def places(seed: int, size: int) -> list[Place]:
    """Return the runs of a campaign, half of them for each `wal_mode`."""
    chooser = random.Random(seed)
    found = []
    for options in MODES:
        names = count_calls(options)
        for faults in choices(len(names), chooser, (size + 1) // len(MODES)):
            described = ", ".join(f"{kind} of {names[number - 1]}" for number, kind in faults if number <= len(names))
            found.append(Place(options, faults, described))
    return found


def run_place(place: Place) -> Outcome:
    """Run the scenario with the faults of one place."""
    run = Run(CallFaults(*place.faults), place.options)
    failure = ""
    try:
        asyncio.run(run.run())
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    return Outcome(place, failure, run.has_panicked)


def run_campaign(seed: int, sweep: Sweep) -> bool:
    """Run the faults of `seed`, print each failure and a summary, and return True if there was no failure."""
    counts: Counter[str] = Counter()
    seen: list[set[tuple[str, Fault]]] = [set(), set()]
    """The first faults of runs with one fault, and of runs with two, each with its `wal_mode`."""
    for place, failure, has_panicked in sweep.outcomes(run_place, places(seed, sweep.size)):
        if failure:
            counts["failures"] += 1
            print(f"disk faults, {place.options}, {place.faults} ({place.described}): {failure}", flush=True)
        counts["runs"] += 1
        seen[len(place.faults) - 1].add((place.options["wal_mode"], place.faults[0]))
        counts["two faults"] += len(place.faults) > 1
        counts["panics"] += has_panicked
    described = ", ".join(f"{count} {name}" for name, count in counts.items())
    print(f"disk faults, seed {seed}: {described}")
    print(f"  different first faults: {len(seen[0])} alone, {len(seen[1])} with a second one")
    return not counts["failures"]
