"""The fast path of many changes at once: runs sent by another instance, each change in its own transaction.

It does what `box.txn.fast_path` does for one change, at a lower cost for each: the indexes are changed one by one,
and the whole run is one entry of the journal. A run stops before the first change that fails or needs the general path;
that change is then executed alone, with the usual outcome. Each change of a synchronous run has its own entry in the
limbo.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Protocol

from box.errors import BoxError
from box.index.duplicate_key import duplicate_key
from box.txn.fast_path import CHANGES, HeldChange, undo
from box.txn.transaction import Statement
from box.wire.change import REPLACE, Request, decode_change
from box.wire.constants import GROUP_DEFAULT
from box.wire.entry import JournalEntry, RunEntry

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.txn.synchro import LimboDriver
    from box.txn.write_plan import Planner, WritePlan
    from box.wire.change_run import ChangeRun
    from box.wire.row import Row

Change = tuple["Space", bytes | None, bytes | None]
"""The space of a change, and the tuples before and after it."""

STORED_AT_ONCE: Final = 64
"""The number of changes whose tuples are decoded together."""
_BUSY_AT: Final = 1024
"""The number of changes, a multiple of `STORED_AT_ONCE`, after which other instances are told that this one is busy."""
_FEW: Final = 4
"""The number of changes from which on that takes less time than to decode one by one."""
_NO_PREFIX: Final = b"\xc1"
"""A value that no body begins with: MessagePack never uses the byte 0xc1."""


class RunChange(HeldChange):
    """One change of a synchronous run while the run goes through journal and limbo."""

    __slots__ = ("_callbacks", "_run", "done", "error", "lsn", "new", "old", "result", "space", "wait_sync", "written")

    since = None
    wait_ack = True
    waits = False

    def __init__(self, run: ChangeRun, lsn: int, change: Change) -> None:
        self._callbacks = None
        self._run = run
        self.done = False
        self.error = None
        self.lsn = lsn
        self.result = None
        self.space, self.old, self.new = change
        self.wait_sync = True
        self.written = False

    @property
    def origin_id(self) -> int:
        return self._run.replica_id

    @property
    def place(self) -> tuple[int, int]:
        return self.lsn, self.lsn


class RunWrite(RunEntry):
    """A run of changes on its way to the journal.

    Synchronous changes also enter the limbo, which must accept them (`Limbo.takes`). `on_end` is called with the
    outcome: None, or the error after all changes were undone.
    """

    __slots__ = ("_changes", "_held", "_on_end", "_synchro")

    def __init__(
        self, run: ChangeRun, changes: list[Change], on_end: Callable[[BoxError | None], None], synchro: LimboDriver
    ) -> None:
        super().__init__(run, _ended)
        self._changes = changes
        self._on_end = on_end
        self._synchro = synchro
        self._held: list[RunChange] = []
        if run.flags:
            self._held += [RunChange(run, lsn, change) for lsn, change in zip(run.lsns, changes, strict=True)]
            synchro.append(run.replica_id, *self._held)

    def take_back(self, error: BoxError) -> None:
        """Undo the changes of the run, newest first."""
        if not self._held:
            take_back(self._changes)
            return
        newest_first = self._held[::-1]
        self._synchro.abort(*[change for change in newest_first if change.wait_sync])
        for change in newest_first:
            change.take_back(error)

    def end(self) -> None:
        """Handle the end of the journal write; changes that wait in the limbo are decided there."""
        if self.error is not None:
            self.take_back(self.error)
        else:
            for change in self._held:
                change.written = True
                if not (change.wait_sync or change.done):
                    change.finish()
        self._on_end(self.error)
        if self._held and self.error is None:
            self._synchro.go_on()


def _ended(entry: JournalEntry) -> None:
    assert isinstance(entry, RunWrite)
    entry.end()


def take_back(changes: list[Change]) -> None:
    """Undo changes, newest first."""
    for space, old, new in reversed(changes):
        undo(space, old, new)


class SpaceSource(Protocol):
    """The part of the schema that this module uses."""

    def space(self, space_id: int) -> Space:
        """Return a space by its id.

        Raises:
            NoSuchSpaceError: NO_SUCH_SPACE.
        """


def change_rows(
    schema: SpaceSource, planner: Planner, kinds: list[int], bodies: list[bytes], is_sync: bool | None = None
) -> list[Change]:
    """Execute changes in order, and return those that succeeded. A change that fails, and all after it, have no effect.

    `is_sync` tells whether the changed spaces must be synchronous or asynchronous; None allows both. After an
    unexpected exception all changes are undone.
    """
    changes: list[Change] = []
    try:
        _change_rows(schema, planner, kinds, bodies, is_sync, changes)
    except BoxError:
        pass  # the general path will raise it for the failed change
    except BaseException:
        take_back(changes)
        raise
    return changes


def _change_rows(
    schema: SpaceSource,
    planner: Planner,
    kinds: list[int],
    bodies: list[bytes],
    is_sync: bool | None,
    changes: list[Change],
) -> None:
    add = changes.append
    space: Any = None
    plan: Any = None
    prefix, size = _NO_PREFIX, 0
    changed: Any = None
    changed_plan: Any = None
    known_id = -1
    number, count = 0, len(bodies)
    while number < count:
        kind, body = kinds[number], bodies[number]
        if kind <= REPLACE and body.startswith(prefix):  # the change is about the same space as the one before
            raws = _stretch(kinds, bodies, number, size, prefix)
            store_tuples(plan, space, kind, raws, changes)
            number += len(raws)
            continue
        if kind not in CHANGES:
            return
        space_id, request = decode_change(kind, body)
        if space_id != known_id:  # no change of a run defines or alters a space
            changed = schema.space(space_id)
            changed_plan = changed.write_plan or planner.plan(changed)
            if not changed_plan.is_usual or changed.has_triggers:
                return
            if is_sync is not None and changed_plan.is_sync is not is_sync:
                return
            known_id = space_id
        if request.index_id:
            return
        if kind <= REPLACE:
            # Further changes of this space are recognised by their first bytes.
            space, plan, prefix = changed, changed_plan, _prefix(body, request)
            size = len(prefix)
        old, new = CHANGES[kind](changed_plan, changed, request.tuple if kind <= REPLACE else request)
        add((changed, old, new))
        number += 1


def _stretch(kinds: list[int], bodies: list[bytes], first: int, size: int, prefix: bytes) -> list[bytes]:
    """Return the tuples of the changes from `first` on that are of its kind, and whose bodies begin with the prefix."""
    kind, stop = kinds[first], first + STORED_AT_ONCE
    raws = []
    for other, body in zip(kinds[first:stop], bodies[first:stop], strict=True):
        if other != kind or not body.startswith(prefix):
            break
        raws.append(body[size:])
    return raws


def store_tuples(plan: WritePlan, space: Space, kind: int, raws: list[bytes], changes: list[Change]) -> None:
    """Insert or replace tuples of one space, at most `STORED_AT_ONCE`, and append what was done to `changes`.

    Raises:
        BoxError: as `box.txn.fast_path.CHANGES`; the tuples before it are stored, and are in `changes`.
    """
    if plan.has_one_index and len(raws) >= _FEW and _store_together(plan, space, kind, raws, changes):
        return
    if plan.has_many_keys and len(raws) >= _FEW:
        # A functional index calls its function for all of them at once. An error is still raised by its own tuple.
        for index in plan.secondary:
            index.prepare(raws)
    change = CHANGES[kind]
    for raw in raws:
        old, new = change(plan, space, raw)
        changes.append((space, old, new))


def store_alone(
    plan: WritePlan,
    space: Space,
    kind: int,
    raws: list[bytes],
    pass_rows: Callable[[int], None],
    on_busy: Callable[[], None],
    counters: list[int],
) -> None:
    """Insert or replace tuples of one space as a transaction of its own, all or none, while no log keeps their rows.

    `pass_rows` counts the rows in the end, and `on_busy` is called now and then before.

    Raises:
        BoxError: as `box.txn.fast_path.CHANGES` and `pass_rows`; nothing is changed.
    """
    changes: list[Change] = []
    try:
        for start in range(0, len(raws), STORED_AT_ONCE):
            if start and not start % _BUSY_AT:
                on_busy()
            store_tuples(plan, space, kind, raws[start : start + STORED_AT_ONCE], changes)
        pass_rows(len(raws))
    except BaseException:
        take_back(changes)
        raise
    finally:
        counters[kind] += min(len(changes) + 1, len(raws))  # a tuple that was refused counts, too


def _store_together(plan: WritePlan, space: Space, kind: int, raws: list[bytes], changes: list[Change]) -> bool:
    """Insert or replace tuples in a space with one index.

    Returns False, having done nothing, if one of them does not fit.

    Raises:
        DuplicateKeyError: TUPLE_FOUND; the tuples before it are stored, and are in `changes`.
    """
    sizes = list(map(len, raws))
    if max(sizes) > plan.max_size or sum(sizes) > plan.memory.room:
        return False
    try:
        keys = list(map(plan.key_of, plan.format.validate_many(raws)))
    except BoxError:
        return False
    added = plan.add_new(keys, raws)
    changes.extend(zip(repeat(space, added), repeat(None), raws, strict=False))
    if added == len(raws):
        return True
    keys, raws = keys[added:], raws[added:]
    add, replace, find = changes.append, plan.replace, plan.find
    if kind == REPLACE:
        if (former := plan.replace_present(keys, raws)) is not None:
            changes.extend(zip(repeat(space), former, raws, strict=False))
            return True
        for key, raw in zip(keys, raws, strict=True):
            add((space, replace(key, raw), raw))
        return True
    for key, raw in zip(keys, raws, strict=True):
        if (old := find(key)) is not None:
            raise duplicate_key(space.index(0), space.name, old, raw)
        plan.put(key, raw)
        add((space, None, raw))
    return True


def add_statements(statements: list[Statement], changes: list[Change], rows: list[Row], applied: int) -> int:
    """Append statements for changes that rows of another instance have made.

    `applied` is the number of earlier changes in the transaction. Returns that number increased by the new changes.
    """
    for row, (space, old, new) in zip(rows, changes, strict=False):
        row.group_id = GROUP_DEFAULT
        statement = Statement(space, row.type, old, new, row)
        if old is not None or new is not None:
            applied += 1
            statement.applied = applied
        statements.append(statement)
    return applied


def _prefix(body: bytes, request: Request) -> bytes:
    """Return the bytes of a body before its tuple if they contain the space id only; otherwise `_NO_PREFIX`.

    Another body that begins with these bytes is about the same space.
    """
    prefix = body[: len(body) - len(request.tuple)]
    # 0x82: a map of two pairs; 0x10: the key SPACE_ID; 0x21: the key TUPLE.
    is_usual = prefix[0] == 0x82 and prefix[1] == 0x10 and prefix[-1] == 0x21 and body.endswith(request.tuple)
    return prefix if is_usual else _NO_PREFIX
