"""Leaves out secondary indexes while a log is read, and fills them at its end.

```
a space is loaded from the snapshot,
or is empty when its first row comes         only its primary index takes part
a row needs the other indexes                they are filled first, and take part from then on
the end of the log                           they are filled: their keys are sorted once, not inserted one by one
```

Rows that need all indexes are changes of definitions, those of spaces with triggers and those by another index. So does
everything that is undone. Only spaces whose changes take the fast path (`fast_path.py`) take part. A repeated key of
a secondary index is found at the end; a log that was written in order has none. Tarantool as well builds secondary
indexes only after the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Final

from box.index.functional import DisabledIndex
from box.schema.ids import SpaceId
from box.txn.space_load import SpaceLoad, fill_secondary, rearrange_slots
from box.txn.write_plan import WritePlan

if TYPE_CHECKING:
    from box.log import Log
    from box.schema.space import Space
    from box.txn.write_plan import Planner

_NOT_DEFINITIONS: Final = frozenset(
    (SpaceId.SEQUENCE_DATA, SpaceId.SCHEMA, SpaceId.CLUSTER, SpaceId.SEQUENCE, SpaceId.USER, SpaceId.PRIV)
)
"""System spaces whose rows change no space and no index."""


def defines(space_id: int) -> bool:
    """Return whether rows of a system space may change spaces or indexes."""
    return space_id not in _NOT_DEFINITIONS


class DeferredIndexes:
    """The spaces whose secondary indexes are left out for now, each with the write plan that leaves them out."""

    def __init__(self, planner: Planner, log: Log) -> None:
        self._planner = planner
        self._log = log
        self._plans: dict[Space, WritePlan] = {}
        self._loads: dict[Space, SpaceLoad] = {}
        """The loads of spaces from the snapshot."""
        self._changed: set[Space] = set()
        """Spaces that rows of the log may have changed."""
        self._slotted: set[Space] = set()
        """Spaces that have indexes with slots, and were empty when their first row came."""

    def __len__(self) -> int:
        return len(self._plans)

    def leave_out(self, load: SpaceLoad) -> bool:
        """Leave out the secondary indexes of a space whose primary index was loaded from the snapshot.

        Returns False if that is not possible.
        """
        space = load.space
        if len(space.indexes) > 1 and not space.has_triggers:
            self._begin(space)
        if space not in self._plans:
            return False
        self._loads[space] = load
        return True

    def needs_all(self, space: Space, index_id: int) -> bool:
        """Prepare a space for a change by an index. Returns True if its secondary indexes have to be filled before."""
        plan = self._plans.get(space)
        self._changed.add(space)
        if plan is None:
            if len(space.indexes) > 1 and not space.has_triggers and not index_id and not len(space.index(0)):
                self._begin(space)
            return False
        if space.has_triggers or index_id:
            return True
        if space.write_plan is not plan:
            self._begin(space)
        return False

    def _begin(self, space: Space) -> None:
        """Leave out the secondary indexes of a space from now on, if all of them can be filled later."""
        if any(index.has_slots for index in space.indexes.values()):
            if not len(space.index(0)):
                self._slotted.add(space)
            return
        plan = self._planner.plan(space)
        if not plan.is_usual or plan.is_sync:
            return
        if any(isinstance(index, DisabledIndex) for index in plan.secondary):
            return
        lean = copy(plan)
        lean.secondary, lean.has_one_index, lean.has_many_keys = [], True, False
        self._plans[space] = space.write_plan = lean

    def filling(self) -> Iterator[None]:
        """Fill what was left out so far, a slice in every step.

        Raises:
            DuplicateKeyError: TUPLE_FOUND, a key is repeated.
        """
        while self._plans:
            space = next(iter(self._plans))
            del self._plans[space]
            space.write_plan = None
            load = self._loads.pop(space, None)
            if load is None:
                yield from fill_secondary(space, self._log)
            else:
                yield from load.secondary_steps(self._log, has_changed=space in self._changed)

    def rearrange(self, space: Space) -> None:
        """Bring indexes with slots into the order in which Tarantool fills them at the end of the log.

        They take part from the first row on, since their changes do not take the fast path.
        """
        rearrange_slots(space, self._log if space in self._slotted else None)
