"""The short way of many changes at once: runs sent by another instance, each change in its own transaction.

It does what `box.txn.short` does for one change, at a lower cost for each: the indexes are changed one after another,
and the whole run is one entry of the journal. A run stops before the first change that fails or needs the general way;
that change is then executed alone, with the usual outcome. Each change of a synchronous run has its own entry in the
limbo.
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
"""A value that no body begins with: MessagePack never uses the byte 0xc1."""


class RunWrite(RunEntry):
    """Changes on their way to the journal.

    `on_end` is called with None once they are written, or with the error after they were undone.
    """

    __slots__ = ("_changes", "_on_end")

    def __init__(self, run: ChangeRun, changes: list[Change], on_end: Callable[[BoxError | None], None]) -> None:
        super().__init__(run, _written)
        self._changes = changes
        self._on_end = on_end

    def take_back(self, error: BoxError) -> None:
        """Undo the changes, newest first."""
        take_back(self._changes)

    def end(self) -> None:
        """Complete the run after the journal has written or failed it."""
        if self.error is not None:
            self.take_back(self.error)
        self._on_end(self.error)


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


class HeldRun(RunWrite):
    """Changes of synchronous transactions. They enter the limbo, which must accept them (`Limbo.takes`)."""

    __slots__ = ("_held", "_synchro")

    def __init__(
        self, run: ChangeRun, changes: list[Change], on_end: Callable[[BoxError | None], None], synchro: LimboDriver
    ) -> None:
        super().__init__(run, changes, on_end)
        self._synchro = synchro
        self._held = [RunChange(run, lsn, change) for lsn, change in zip(run.lsns, changes, strict=True)]
        synchro.append(run.replica_id, *self._held)

    def take_back(self, error: BoxError) -> None:
        """Undo the changes, newest first, and remove them from the limbo."""
        newest_first = self._held[::-1]
        self._synchro.abort(*[change for change in newest_first if change.wait_sync])
        for change in newest_first:
            change.take_back(error)

    def end(self) -> None:
        """Complete the run after the journal has written or failed it; the limbo decides about its changes."""
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
    """Undo changes, newest first."""
    for space, old, new in reversed(changes):
        undo(space, old, new)


class SpaceSource(Protocol):
    """The part of the schema that is used here."""

    def space(self, space_id: int) -> Space:
        """Return a space by its id.

        Raises:
            NoSuchSpaceError: NO_SUCH_SPACE.
        """


class PlanSource(Protocol):
    """The part of the planner that is used here."""

    def plan(self, space: Space) -> WritePlan:
        """Return the plan for the space's present layout."""


def change_all(schema: Schema, planner: Planner, run: ChangeRun, start: int, stop: int) -> list[Change]:
    """Execute the changes of a run from number `start` to before `stop`; returns those that were executed.

    The others leave no trace. A synchronous run may change only synchronous spaces, any other run only asynchronous
    ones.
    """
    kinds = [head[2] for head in run.heads[start:stop]]
    return _change_all_or_none(schema, planner, kinds, run.bodies[start:stop], bool(run.flags))


def change_rows(schema: SpaceSource, planner: PlanSource, rows: list[Row]) -> list[Change]:
    """Execute rows of one transaction, whose spaces may be synchronous or not; returns the executed changes."""
    return _change_all_or_none(schema, planner, [row.type for row in rows], [row.body for row in rows], None)


def _change_all_or_none(
    schema: SpaceSource, planner: PlanSource, kinds: list[int], bodies: list[bytes], is_sync: bool | None
) -> list[Change]:
    """Execute changes and return those that succeeded. An error other than BoxError undoes all of them."""
    changes: list[Change] = []
    try:
        _change_all(schema, planner, kinds, bodies, is_sync, changes)
    except BoxError:
        pass  # the general way will raise it for the failed change
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
    """Append the executed changes to `changes`. `is_sync` is what the spaces must be, None for either."""
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
            # Later bodies that begin with the same bytes are about the same space, and need no decoding.
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
    """Return the bytes of a body before its tuple if they contain the space id only; otherwise `_NO_PREFIX`.

    Another body that begins with these bytes is about the same space.
    """
    prefix = body[: len(body) - len(request.tuple)]
    # 0x82: a map of two pairs; 0x10: the key SPACE_ID; 0x21: the key TUPLE.
    is_usual = prefix[0] == 0x82 and prefix[1] == 0x10 and prefix[-1] == 0x21 and body.endswith(request.tuple)
    return prefix if is_usual else _NO_PREFIX
