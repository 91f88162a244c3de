"""The short way of many changes at once: runs that another instance sends, each change a transaction of its own.

What `box.txn.short` does for one change, without an object for each: the indexes are changed one after another, and the
whole run is one entry of the journal. It stops before the first change that needs the general way, or that fails:
that one is executed by itself then, with the same outcome as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from box.errors import BoxError
from box.txn.short import SHORT_CHANGES, undo
from box.wire.change import INSERT, REPLACE, Request, decode_change
from box.wire.entry import JournalEntry, RunEntry

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.txn.plan import Planner
    from box.wire.change_run import ChangeRun

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

    def take_back(self) -> None:
        """The newest change first."""
        take_back(self._changes)

    def end(self) -> None:
        """The journal is done."""
        if self.error is not None:
            self.take_back()
        self._on_end(self.error)


def _written(entry: JournalEntry) -> None:
    assert isinstance(entry, RunWrite)
    entry.end()


def take_back(changes: list[Change]) -> None:
    """Put the indexes back as they were before some changes."""
    for space, old, new in reversed(changes):
        undo(space, old, new)


def change_all(schema: Schema, planner: Planner, run: ChangeRun, start: int, stop: int) -> list[Change]:
    """Execute changes of a run from number `start` on; those that are done. The others are as if never asked for."""
    changes: list[Change] = []
    try:
        _change_all(schema, planner, run, start, stop, changes)
    except BoxError:
        pass  # the general way finds out what it is
    except BaseException:
        take_back(changes)
        raise
    return changes


def _change_all(schema: Schema, planner: Planner, run: ChangeRun, start: int, stop: int, changes: list[Change]) -> None:
    add = changes.append
    prefix, size = _NO_PREFIX, 0
    for head, body in zip(run.heads[start:stop], run.bodies[start:stop], strict=True):
        kind = head[2]
        if kind > REPLACE or not body.startswith(prefix):
            space_id, request = decode_change(kind, body)
            changed = schema.space(space_id)
            plan = planner.plan(changed)
            if not plan.is_short or changed.has_triggers or request.index_id:
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
            max_size, has_one_index, exchange_all = plan.max_size, plan.has_one_index, plan.exchange_all
            raw = request.tuple
        else:
            raw = body[size:]
        fields = validate(raw)
        if len(raw) > max_size:
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
