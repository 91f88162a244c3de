"""`box.sequence` and `space:truncate()`: changes of system spaces that a user makes without a right on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from box.data import codec
from box.errors import ErrorCode, client_error
from box.schema.access import Privilege, check_object
from box.schema.ids import SpaceId
from lua.bindings.binding import Binding, Outcome, guarded

if TYPE_CHECKING:
    from collections.abc import Callable

    from box.schema.sequence import Sequence
    from box.schema.space import Space
    from box.session import Context
    from box.txn.dml import Dml


class SequenceBinding(Binding):
    """Values of sequences are rows of `_sequence_data`, truncations are counted in `_truncate`."""

    def _as_admin(self, space_id: SpaceId, change: Callable[[Dml, Context, Space], Any]) -> Context:
        """Change a system space in the name of admin, in the transaction of the running fiber."""
        ctx = self.ctx
        before = ctx.credentials
        ctx.credentials = self.node.schema.admin
        try:
            change(self.node.dml, ctx, self.node.schema.space(space_id))
        finally:
            ctx.credentials = before
        return ctx

    def _writable(self, sequence_id: int) -> Sequence:
        sequence = self.node.schema.sequence(int(sequence_id))
        check_object(self.ctx.credentials, Privilege.W, "sequence", sequence.id, sequence.name, sequence.owner)
        return sequence

    def _store(self, sequence: Sequence, value: int, result: Outcome) -> Outcome:
        row = codec.pack([sequence.id, value])
        ctx = self._as_admin(SpaceId.SEQUENCE_DATA, lambda dml, ctx, space: dml.replace(ctx, space, row))
        return self.after_commit(ctx, result)

    @guarded("sequence_next")
    def next(self, sequence_id: int) -> Outcome:
        """The next value. ER_SEQUENCE_OVERFLOW."""
        sequence = self._writable(sequence_id)
        value = sequence.next()
        return self._store(sequence, value, codec.pack(value))

    @guarded("sequence_set")
    def set(self, sequence_id: int, packed: bytes) -> Outcome:
        """Set the last value."""
        sequence = self._writable(sequence_id)
        value = codec.unpack(packed)
        if isinstance(value, float) and math.isfinite(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise client_error(ErrorCode.PROC_LUA, "expected int64_t as 2 argument")
        return self._store(sequence, value, None)

    @guarded("sequence_reset")
    def reset(self, sequence_id: int) -> Outcome:
        """Forget the value: the next one is the start."""
        sequence = self._writable(sequence_id)
        key = [sequence.id]
        ctx = self._as_admin(SpaceId.SEQUENCE_DATA, lambda dml, ctx, space: dml.delete(ctx, space, 0, key))
        return self.after_commit(ctx, None)

    @guarded("sequence_current")
    def current(self, sequence_id: int) -> Outcome:
        """The last value. ER_SEQUENCE_NOT_STARTED."""
        sequence = self.node.schema.sequence(int(sequence_id))
        credentials = self.ctx.credentials
        check_object(credentials, Privilege.R, "sequence", sequence.id, sequence.name, sequence.owner)
        return codec.pack(sequence.current())

    @guarded("space_truncate")
    def truncate(self, space_id: int) -> Outcome:
        """Delete all tuples of a space. ER_TRUNCATE_SYSTEM_SPACE."""
        space = self.node.schema.space(space_id)
        space.check_access(self.ctx.credentials, Privilege.W)
        row, ops = codec.pack([space.id, 1]), [["+", 2, 1]]
        ctx = self._as_admin(SpaceId.TRUNCATE, lambda dml, ctx, target: dml.upsert(ctx, target, row, ops))
        return self.after_commit(ctx, None)
