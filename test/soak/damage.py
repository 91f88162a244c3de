"""The campaign "damage": starts an instance from a snapshot and a log of which one byte is changed or the end is cut.

An instance that starts from damaged files may:

    refuse     raise a BoxError: required for a changed snapshot and for a broken row in the middle of the log
    start      have all rows, or those of an earlier state if the end of the log is damaged: a killed process leaves
               such an end, and Tarantool starts from it
    skip       with `force_recovery`, lack some rows

Checked: the start raises nothing but a BoxError, no row appears that was never written, and an instance that has
started accepts writes and starts again with the same rows.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from box.data.codec import unpack
from box.errors import BoxError
from box.instance.node import Instance
from box.journal.storage import MemoryStorage, write_all
from box.schema.ids import SpaceId
from test.crash.instance import SPACE, make_space, put
from test.soak.shares import Sweep

PATIENCE: Final = 120.0
"""Seconds for one start."""
_BEFORE, _AFTER = range(1, 6), range(6, 13)
"""Keys of the rows in the snapshot, and of those that only the log has."""

Rows = dict[int, str]


class Damage(NamedTuple):
    """One change of one file: the byte at `offset` is XORed with `change`, or the file ends there if `change` is 0.

    `force_recovery` is the option with which the instance starts.
    """

    path: str
    offset: int
    change: int
    force_recovery: bool

    @property
    def described(self) -> str:
        """The kind of file, the kind of damage and the option, for the summary."""
        change = "a byte changed" if self.change else "cut off"
        return f"{self.path[-5:]}, {change}{', force_recovery' if self.force_recovery else ''}"

    def apply(self, content: bytes) -> bytes:
        if not self.change:
            return content[: self.offset]
        return content[: self.offset] + bytes((content[self.offset] ^ self.change,)) + content[self.offset + 1 :]


class Original:
    """The undamaged files and their rows.

    `states` has the rows after the snapshot and after each transaction of the log: a start from a log that is cut
    short may end in any of them. `system` has the rows of some system spaces, by space id.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.states: list[Rows] = []
        self.system: dict[int, list[Any]] = {}
        asyncio.run(self._make())

    async def _make(self) -> None:
        disk = MemoryStorage()
        instance = await started(disk)
        await make_space(instance)
        for key in _BEFORE:
            await put(instance, SPACE, [[key, f"value {key}"]])
        await instance.checkpoints.make()
        self.states.append(rows_of(instance))
        for key in _AFTER:
            changes = [[key, f"value {key}"], [1, f"changed with {key}"]]
            await put(instance, SPACE, changes[: 1 + key % 2])
            self.states.append(rows_of(instance))
        self.system = _system_rows(instance)
        await instance.close()
        self.files = read_all(disk)

    @property
    def damaged_paths(self) -> list[str]:
        """The paths of the newest snapshot and of the log that continues it."""
        snapshot = max(path for path in self.files if path.endswith(".snap"))
        log = snapshot.replace(".snap", ".xlog")
        return [snapshot, log]

    def damages(self, chooser: random.Random, size: int) -> Iterator[Damage]:
        """Yield `size` damages in random order; each byte of both files is hit once before any is hit twice.

        A byte is damaged in four ways: changed or cut off, with and without `force_recovery`.
        """
        places = [(path, offset) for path in self.damaged_paths for offset in range(len(self.files[path]))]
        chooser.shuffle(places)
        for index in range(min(size, 4 * len(places))):
            sweep, number = divmod(index, len(places))
            is_change, force = divmod((sweep + number) % 4, 2)
            yield Damage(*places[number], chooser.randrange(1, 256) if is_change else 0, bool(force))


def read_all(disk: MemoryStorage) -> dict[str, bytes]:
    """Return the contents of all files by path."""
    files = {}
    for name in disk.names("."):
        file = disk.open(f"./{name}")
        files[f"./{name}"] = file.read(0, disk.size(f"./{name}"))
    return files


def disk_of(files: dict[str, bytes]) -> MemoryStorage:
    """Make a disk in memory with these files."""
    disk = MemoryStorage()
    for path, content in files.items():
        write_all(disk.create(path), content)
    return disk


async def started(disk: MemoryStorage, **options: Any) -> Instance:
    """Start an instance from a disk; if the start fails, the instance is closed and the error raised."""
    instance = Instance(disk=disk)
    instance.log.open("/dev/null")
    try:
        async with asyncio.timeout(PATIENCE):
            await instance.configure({"log": "/dev/null", "log_level": 0, **options})
    except BaseException:
        await instance.close()
        raise
    return instance


def _all(instance: Instance, space_id: int, index: int = 0) -> list[Any]:
    if space_id not in instance.schema.spaces or index not in instance.schema.space(space_id).indexes:
        return []
    space, ctx = instance.schema.space(space_id), instance.new_context()
    return [unpack(raw) for raw in instance.dml.reads.select(ctx, space, index, 2, 0, 2**32 - 1, [])]


def rows_of(instance: Instance) -> Rows:
    """Return the rows of the test space, none if it has no index, and assert that both indexes agree."""
    rows, by_value = _all(instance, SPACE), _all(instance, SPACE, 1)
    assert not by_value or sorted(by_value) == rows, "the indexes do not agree"
    return dict(rows)


def _system_rows(instance: Instance) -> dict[int, list[Any]]:
    return {space: _all(instance, space) for space in (SpaceId.SCHEMA, SpaceId.SPACE, SpaceId.INDEX, SpaceId.USER)}


async def decide(original: Original, damage: Damage) -> str:
    """Start from damaged files, check the result, and return what the instance did.

    Returns:
        "refused", "whole" (all rows), "beginning" (an earlier state) or "skipped" (some rows lack).

    Raises:
        AssertionError: the instance should not have done that.
        Exception: the start raised something else than a BoxError.
    """
    files = dict(original.files)
    files[damage.path] = damage.apply(files[damage.path])
    disk = disk_of(files)
    try:
        instance = await started(disk, force_recovery=damage.force_recovery)
    except BoxError:
        return "refused"
    try:
        rows = rows_of(instance)
        decision = _judge(original, damage, rows, _system_rows(instance))
        if SPACE in instance.schema.spaces and 0 in instance.schema.space(SPACE).indexes:
            await put(instance, SPACE, [[100, "written afterwards"]])
    finally:
        await instance.close()
    again = await started(disk, force_recovery=damage.force_recovery)
    try:
        assert 100 not in rows
        assert rows_of(again).get(100, "written afterwards") == "written afterwards"
        assert {key: value for key, value in rows_of(again).items() if key != 100} == rows, "another start, other rows"
    finally:
        await again.close()
    return decision


def _judge(original: Original, damage: Damage, rows: Rows, system: dict[int, list[Any]]) -> str:
    if rows == original.states[-1] and system == original.system:
        return "whole"
    if not damage.force_recovery:
        assert damage.path.endswith(".xlog"), "a damaged snapshot was accepted"
        assert rows in original.states, f"rows of no state of the log: {rows}"
        assert system == original.system
        return "beginning"
    written = {(key, value) for state in original.states for key, value in state.items()}
    assert set(rows.items()) <= written, f"rows that were never written: {set(rows.items()) - written}"
    for space, found in system.items():
        assert all(row in original.system[space] for row in found), f"rows of space {space} that were never written"
    return "skipped"


class Outcome(NamedTuple):
    """The result of one damage: the decision of `decide`, or "failures" and the error's text in `failure`."""

    damage: Damage
    decision: str
    failure: str


Decide = Callable[[Any, Damage], Coroutine[Any, Any, str]]
"""`decide` of this module, or one like it for other files."""


def run_damage(decide: Decide, original: Original, damage: Damage) -> Outcome:
    try:
        try:
            decision = asyncio.run(decide(original, damage))
        except TimeoutError:  # a second try tells a start that hangs from a machine that was stopped for a while
            decision = asyncio.run(decide(original, damage))
    except Exception as error:
        return Outcome(damage, "failures", f"{type(error).__name__}: {error}")
    return Outcome(damage, decision, "")


def run_campaign(seed: int, sweep: Sweep) -> bool:
    """Run the damages of `seed`, print each failure and a summary, and return True if there was no failure."""
    return run_damages("damage", decide, Original(), seed, sweep)


def run_damages(name: str, decide: Decide, original: Original, seed: int, sweep: Sweep) -> bool:
    """Run the campaign `name` with damages of the files of `original`, as `run_campaign` does."""
    counts: Counter[tuple[str, str]] = Counter()
    places: set[tuple[str, int]] = set()
    damages = list(original.damages(random.Random(seed), sweep.size))
    for damage, decision, failure in sweep.outcomes(partial(run_damage, decide, original), damages):
        places.add((damage.path, damage.offset))
        counts[damage.described, decision] += 1
        if failure:
            print(f"{name}, seed {seed}, {damage}: {failure}", flush=True)
    sizes = ", ".join(f"{len(original.files[path])} bytes of {path[-5:]}" for path in original.damaged_paths)
    print(f"{name}, seed {seed}: {sum(counts.values())} damages at {len(places)} offsets in {sizes}")
    for (described, decision), count in sorted(counts.items()):
        print(f"  {described}: {count} {decision}", flush=True)
    return not any(decision == "failures" for _, decision in counts)
