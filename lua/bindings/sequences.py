"""`box.sequence` and `space:truncate()`: changes of system spaces that need no privilege on those spaces."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from box.data import codec
from box.errors import ErrorCode, client_error
from box.schema.access import Privilege, check_object
from box.schema.ids import SpaceId
from box.wire.change import Request
from lua.bindings.binding import Binding, Outcome, guarded

if TYPE_CHECKING:
    from box.schema.sequence import Sequence


class SequenceBinding(Binding):
    """Sequences and truncations, for Lua.

    Values of sequences are rows of `_sequence_data`; truncations are counted in `_truncate`.
    """

    def _write(self, space_id: SpaceId, request: Request, result: Outcome) -> Outcome:
        """Change a system space as admin in the running fiber's transaction; `result` is returned in the end."""
        ctx = self.ctx
        before = ctx.credentials
        ctx.credentials = self.node.schema.admin
        try:
            outcome = self.node.dml.write(ctx, self.node.schema.space(space_id), request)
        finally:
            ctx.credentials = before
        return self.after(outcome, result)

    def _writable(self, sequence_id: int) -> Sequence:
        sequence = self.node.schema.sequence(int(sequence_id))
        check_object(self.ctx.credentials, Privilege.W, "sequence", sequence.id, sequence.name, sequence.owner)
        return sequence

    def _store(self, sequence: Sequence, value: int, result: Outcome) -> Outcome:
        return self._write(SpaceId.SEQUENCE_DATA, Request.replace(codec.pack([sequence.id, value])), result)

    @guarded("sequence_next")
    def next(self, sequence_id: int) -> Outcome:
        """Return the next value.

        Raises:
            ClientError: SEQUENCE_OVERFLOW.
        """
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
        """Forget the value, so that the next one is the start."""
        sequence = self._writable(sequence_id)
        return self._write(SpaceId.SEQUENCE_DATA, Request.delete([sequence.id]), None)

    @guarded("sequence_current")
    def current(self, sequence_id: int) -> Outcome:
        """Return the last value.

        Raises:
            ClientError: SEQUENCE_NOT_STARTED.
        """
        return codec.pack(self._writable(sequence_id).current())

    @guarded("space_truncate")
    def truncate(self, space_id: int) -> Outcome:
        """Delete all tuples of a space.

        Raises:
            ClientError: TRUNCATE_SYSTEM_SPACE.
        """
        space = self.node.schema.space(space_id)
        space.check_access(self.ctx.credentials, Privilege.W)
        request = Request.upsert(codec.pack([space.id, 1]), [["+", 2, 1]])
        return self._write(SpaceId.TRUNCATE, request, None)
