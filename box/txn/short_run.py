"""The short way of many changes at once: runs that another instance sends, each change a transaction of its own.

What `box.txn.short` does for one change, with as little as possible for each: the indexes are changed one after
another, and the whole run is one entry of the journal. It stops before the first change that needs the general way, or
that fails: that one is executed by itself then, with the same outcome as ever. The changes of a synchronous run have a
place in the limbo each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from box.errors import BoxError
from box.txn.short import SHORT_CHANGES, HeldChange, undo
from box.wire.change import INSERT, REPLACE, Request, decode_change
from box.wire.entry import JournalEntry, RunEntry

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.txn.plan import Planner, WritePlan
    from box.txn.synchro import LimboDriver
    from box.wire.change_run import ChangeRun
    from box.wire.row import Row

Change = tuple["Space", bytes | None, bytes | None]
"""The space of a change, and the tuples before and after it."""

_NO_PREFIX: Final = b"\xc1"
"""No body begins with this."""


class RunWrite(RunEntry):
    """Changes on their way to the journal. `on_end` is told of the outcome: None, or the error after everything was
    taken back."""

    __slots__ = ("_changes", "_on_end")

    def __init__(self, run: ChangeRun, changes: list[Change], on_end: Callable[[BoxError | None], None]) -> None:
        super().__init__(run, _written)
        self._changes = changes
        self._on_end = on_end

    def take_back(self, error: BoxError) -> None:
        """The newest change first."""
        take_back(self._changes)

    def end(self) -> None:
        """The journal is done."""
        if self.error is not None:
            self.take_back(self.error)
        self._on_end(self.error)


class RunChange(HeldChange):
    """One change of a synchronous run, from the moment on when the run is handed to the journal."""

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


class HeldRun(RunWrite):
    """Changes of synchronous transactions, which enter the limbo; it must take them (`Limbo.takes`)."""

    __slots__ = ("_held", "_synchro")

    def __init__(
        self, run: ChangeRun, changes: list[Change], on_end: Callable[[BoxError | None], None], synchro: LimboDriver
    ) -> None:
        super().__init__(run, changes, on_end)
        self._synchro = synchro
        self._held = [RunChange(run, lsn, change) for lsn, change in zip(run.lsns, changes, strict=True)]
        synchro.append(run.replica_id, *self._held)

    def take_back(self, error: BoxError) -> None:
        """The newest change first."""
        newest_first = self._held[::-1]
        self._synchro.abort(*[change for change in newest_first if change.wait_sync])
        for change in newest_first:
            change.take_back(error)

    def end(self) -> None:
        """The journal is done; the limbo decides."""
        if self.error is not None:
            super().end()
            return
        for change in self._held:
            change.written = True
            if not (change.wait_sync or change.done):
                change.finish()
        self._on_end(None)
        self._synchro.go_on()


def _written(entry: JournalEntry) -> None:
    assert isinstance(entry, RunWrite)
    entry.end()


def take_back(changes: list[Change]) -> None:
    """Put the indexes back as they were before some changes."""
    for space, old, new in reversed(changes):
        undo(space, old, new)


class SpaceSource(Protocol):
    """The schema, as far as it is asked."""

    def space(self, space_id: int) -> Space:
        """NO_SUCH_SPACE."""


class PlanSource(Protocol):
    """The planner, as far as it is asked."""

    def plan(self, space: Space) -> WritePlan:
        """The plan of the space's present layout."""


def change_all(schema: Schema, planner: Planner, run: ChangeRun, start: int, stop: int) -> list[Change]:
    """Execute changes of a run from number `start` on; those that are done. The others are as if never asked for.

    Those of a synchronous run are of synchronous spaces, others are not.
    """
    kinds = [head[2] for head in run.heads[start:stop]]
    return _change_all_or_none(schema, planner, kinds, run.bodies[start:stop], bool(run.flags))


def change_rows(schema: SpaceSource, planner: PlanSource, rows: list[Row]) -> list[Change]:
    """The same for rows of one transaction, whose spaces may be synchronous or not."""
    return _change_all_or_none(schema, planner, [row.type for row in rows], [row.body for row in rows], None)


def _change_all_or_none(
    schema: SpaceSource, planner: PlanSource, kinds: list[int], bodies: list[bytes], is_sync: bool | None
) -> list[Change]:
    """Nothing is changed if this fails in a way that the general way does not know."""
    changes: list[Change] = []
    try:
        _change_all(schema, planner, kinds, bodies, is_sync, changes)
    except BoxError:
        pass  # the general way finds out what it is
    except BaseException:
        take_back(changes)
        raise
    return changes


def _change_all(
    schema: SpaceSource,
    planner: PlanSource,
    kinds: list[int],
    bodies: list[bytes],
    is_sync: bool | None,
    changes: list[Change],
) -> None:
    """`is_sync`: what the spaces have to be; None: either."""
    add = changes.append
    prefix, size = _NO_PREFIX, 0
    for kind, body in zip(kinds, bodies, strict=True):
        if kind > REPLACE or not body.startswith(prefix):
            if kind not in SHORT_CHANGES:
                return
            space_id, request = decode_change(kind, body)
            changed = schema.space(space_id)
            plan = planner.plan(changed)
            if not plan.is_usual or changed.has_triggers or request.index_id:
                return
            if is_sync is not None and changed.is_sync is not is_sync:
                return
            if kind > REPLACE:
                old, new = SHORT_CHANGES[kind](plan, changed, request)
                add((changed, old, new))
                continue
            # What follows of the same space is found by its first bytes.
            space = changed
            prefix = _prefix(body, request)
            size = len(prefix)
            validate, key_of, find, replace, put = plan.validate, plan.key_of, plan.find, plan.replace, plan.put
            max_size, memory = plan.max_size, plan.memory
            has_one_index, exchange_all = plan.has_one_index, plan.exchange_all
            raw = request.tuple
        else:
            raw = body[size:]
        fields = validate(raw)
        if len(raw) > max_size or (len(raw) > memory.room and not memory.extend(len(raw))):
            return
        key = key_of(fields)
        if has_one_index and kind == REPLACE:
            add((space, replace(key, raw), raw))
            continue
        old = find(key)
        if old is not None and kind == INSERT:
            return
        if has_one_index:
            put(key, raw)
        else:
            exchange_all(space, old, key, raw, fields)
        add((space, old, raw))


def _prefix(body: bytes, request: Request) -> bytes:
    """The bytes before the tuple, if they are the space's id and nothing else: other bodies that begin with them are
    about the same space."""
    prefix = body[: len(body) - len(request.tuple)]
    is_usual = prefix[0] == 0x82 and prefix[1] == 0x10 and prefix[-1] == 0x21 and body.endswith(request.tuple)
    return prefix if is_usual else _NO_PREFIX
