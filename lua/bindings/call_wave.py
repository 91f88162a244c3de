"""The Python half of `box.call_wave`: runs the calls of one read of a client with one entry into Lua.

```
state    uint32 x 8   position after the last packet taken, bytes of replies, CALLs, EVALs, type of the last request,
                      schema version, whether the dictionary has changed, whether the user may not execute everything
sync     double       the sync of the last request
input    packets as they came
output   reply packets
```

Lua and Python share this memory. The context of the functions is made when one of them first needs it; the following
functions use it too, as long as it is left as it was and none of them waits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from box.data.marks import FIXARRAY
from box.errors import BoxError
from box.iproto.output import LARGE_SIZE
from box.schema.access import may_execute_all
from box.session import RequestContext
from box.txn.pending import Pending
from box.wire.constants import RequestType
from lua.bindings.binding import Binding, exported, text
from lua.boundary import decode_error, encode_error
from lua.fiber import WOKEN

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.schema.access import Credentials
    from box.schema.schema import Schema
    from box.session import Session
    from lua.runtime import Runtime, Values

_POSITION, _OUTPUT, _CALLS, _EVALS, _KIND, _VERSION, _CHANGED, _LIMITED = range(8)
_STATE_SIZE: Final = 8
_INPUT_SIZE: Final = 65536
_OUTPUT_SIZE: Final = 131072
"""The most bytes of packets (input) and of replies (output) in one wave; the rest comes in the next wave."""
_U32: Final = 0xFFFFFFFF
"""A mask: the schema version has 32 bits in the shared memory, as in replies."""
_CLEAN, _DIRTY, _OPEN = range(3)
_DONE, _IN_TRANSACTION = range(2)
_GLOBAL: Final = -1
"""The result of `look_up` for a function that is not in `_func`."""
_NO_RESULTS: Final = bytes((FIXARRAY,))


OnWait = Callable[[RequestContext], bool]
"""Called with the context of a function that has begun to wait. Returns True if the wave may go on."""


OnEnd = Callable[[int, RequestContext, bytes | BoxError], None]
"""Called at the end of a function that has waited, with the request type, its context and its results as one encoded
array, or its error."""


OnWrite = Callable[[int, int, Pending], bool]
"""Called when the function of a request has returned the result of a write that is not complete, with the request
type, the sync and the write. Returns True if the wave may go on."""


class _SharedContext(RequestContext):
    """The context of the functions of one fiber of a wave. `sync` is that of the running request, until `settle` fixes
    it.
    """

    __slots__ = ("_cell", "_settled")

    def __init__(self, session: Session, cell: memoryview[float]) -> None:
        # The fields of the base classes are set here, because two more constructors would take longer than the rest.
        self._cell: memoryview[float] | None = cell
        self._settled = 0
        self.session = session
        self.credentials = session.credentials
        self.txn = self.error = None
        self.has_ended = self.has_waited = False

    @property
    def sync(self) -> int:
        """The sync of the request that runs."""
        return self._settled if self._cell is None else int(self._cell[0])

    @sync.setter
    def sync(self, value: int) -> None:
        """Do nothing for the assignment by `RequestContext`: the shared cell holds the sync."""

    def settle(self) -> None:
        """Fix the sync: from now on the context belongs to the request that has run last."""
        if self._cell is not None:
            self._settled, self._cell = int(self._cell[0]), None


class CallWave(Binding):
    """Runs waves, one at a time. `position`, `sync`, `kind` and `context` describe the state after the last wave."""

    is_direct = True

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        self._state_memory = (ctypes.c_uint32 * _STATE_SIZE)()
        self._sync_memory = (ctypes.c_double * 1)()
        self._input_memory = (ctypes.c_uint8 * _INPUT_SIZE)()
        self._output_memory = (ctypes.c_uint8 * _OUTPUT_SIZE)()
        self._state = memoryview(self._state_memory).cast("B").cast("I")
        self._sync = memoryview(self._sync_memory).cast("B").cast("d")
        self._input = memoryview(self._input_memory).cast("B")
        self._output = memoryview(self._output_memory).cast("B")
        self._taken = 0
        """The number of bytes of replies that were taken already."""
        self._served = 0
        self._session: Session | None = None
        """The session of the running wave, or None."""
        self._credentials: Credentials | None = None
        self._owner: Credentials | None = None
        """The rights of the running function, or None if it has those of the session."""
        self._schema: Schema | None = None
        self._size = 0
        """The bytes of packets in `input`."""
        self._on_wait: OnWait | None = None
        """Called by the running wave for each function that waits; None between waves."""
        self._on_end: OnEnd | None = None
        """Called at the end of each such function."""
        self._on_write: OnWrite | None = None
        """Called by the running wave for each function that ends with a write; None between waves."""
        self.context: _SharedContext | None = None
        super().__init__(runtime, node)
        node.stats.settle = self._count
        self._entry = 0

    @exported("call_wave_memory")
    def memory(self) -> tuple[float, float, float, float, int]:
        """Return the addresses of the shared memory, and the size of the output."""
        memories = (self._state_memory, self._sync_memory, self._input_memory, self._output_memory)
        state, sync, read, written = (float(ctypes.addressof(memory)) for memory in memories)
        return state, sync, read, written, _OUTPUT_SIZE

    @exported("call_look_up")
    def look_up(self, name: bytes) -> int | tuple[int, bool] | None:
        """Return how to call a function: the handle of its body, 0 if it is in `_func` without a body, `_GLOBAL` if it
        is not there. A handle comes with True if the function runs with the rights of its owner.

        Returns None if the general path has to serve the call: the user may not execute the function, or it is unusual.
        """
        schema = self.node.schema
        function = schema.function_by_name(text(name))
        if function is None:
            return None if self._state[_LIMITED] else _GLOBAL
        definition = function.definition
        if definition.language != "LUA" or definition.takes_raw_args or definition.owner not in schema.users:
            return None
        if self._state[_LIMITED]:
            assert self._credentials is not None
            try:
                function.check_access(self._credentials)
            except BoxError:
                return None
        handle = 0 if function.handle is None else int(function.handle)
        return (handle, True) if definition.setuid else handle

    @exported("call_as_owner")
    def run_as_owner(self, name: bytes) -> None:
        """Give the running function, which is in `_func`, the rights of its owner until `is_clean` has found no change
        of them.
        """
        schema = self.node.schema
        function = schema.function_by_name(text(name))
        assert function is not None
        self._owner = schema.user(function.owner).credentials
        self.runtime.ctx.credentials = self._owner

    @exported("call_is_clean")
    def is_clean(self) -> int:
        """Return 0 if the next function may use the same context, 2 if a transaction is open in it, 1 if it is unfit
        for another reason: an error was recorded, or the user has changed."""
        ctx, session = self.context, self._session
        if ctx is None or session is None:
            return _CLEAN
        if ctx.txn is not None:
            return _OPEN
        mine, owner = self._credentials, self._owner
        if ctx.error is not None or ctx.credentials is not (owner or mine) or session.credentials is not mine:
            return _DIRTY
        if owner is not None:
            assert mine is not None
            ctx.credentials, self._owner = mine, None
        return _CLEAN

    @exported("call_waits")
    def goes_on(self, activation: int, fiber_id: int) -> int:
        """Note that the last function waits. Returns 1 if the wave goes on with the next request."""
        state, session, on_wait, on_end = self._state, self._session, self._on_wait, self._on_end
        assert session is not None
        assert on_wait is not None
        assert on_end is not None
        ctx: _SharedContext = self.context or self.runtime.context_of(fiber_id)
        ctx.settle()
        self.context = self._owner = None
        self.runtime.tell_end(activation, partial(self._told, on_end, state[_KIND], ctx, fiber_id))
        may_go_on = on_wait(ctx)
        is_done = state[_POSITION] >= self._size or state[_CHANGED] or session.credentials is not self._credentials
        return int(may_go_on and not is_done)

    @exported("call_ends_with")
    def ends_with(self, token: int) -> int | None:
        """Reply to the last function when the write of `token`, its last act, has ended. Returns as `is_clean` does;
        or None if the function has to wait, because the write runs triggers, or has no result or a large one.
        """
        waits = self._waits
        write = waits.last_write
        assert write is not None
        if write.done or write.may_be_cancelled or write.result is None or len(write.result) >= LARGE_SIZE:
            return None
        waits.forget_token(token)
        write.take_callers()
        on_write = self._on_write
        assert on_write is not None
        may_go_on = on_write(self.kind, self.sync, write)
        return self.is_clean() if may_go_on else _DIRTY

    def fail(self, ctx: RequestContext, error: BoxError, ended: Callable[[BoxError], None]) -> None:
        """Pass to `ended` the error with which a function ends whose last write has failed with `error`."""
        if self.runtime.closed:
            return
        self.note_error(ctx, error)

        def told(outcome: Values | BoxError) -> None:
            assert isinstance(outcome, BoxError)
            ended(outcome)

        self.runtime.start_then(told, self.runtime.handle_of("box.fail_call"), encode_error(error), ctx=ctx)

    @property
    def is_behind(self) -> bool:
        """True if fibers have not gone on yet whose waits have ended."""
        return self.runtime.cells[WOKEN] > 0

    def _make_context(self) -> _SharedContext:
        session = self._session
        assert session is not None
        ctx = self.context = _SharedContext(session, self._sync)
        session.sync = int(self._sync[0])
        return ctx

    def _note_change(self) -> None:
        self._state[_VERSION] = self.node.schema.version & _U32
        self._state[_CHANGED] = 1

    def _count(self) -> None:
        """Add the requests of the wave to the node's counters."""
        state = self._state
        totals = self.node.stats.box.totals
        totals[RequestType.CALL] += state[_CALLS]
        totals[RequestType.EVAL] += state[_EVALS]
        self._served += state[_CALLS] + state[_EVALS]
        state[_CALLS] = state[_EVALS] = 0

    # What a connection reads after a wave.

    @property
    def position(self) -> int:
        """The bytes of packets that the wave has taken."""
        return self._state[_POSITION]

    @property
    def kind(self) -> int:
        """The type of the last request."""
        return self._state[_KIND]

    @property
    def sync(self) -> int:
        """The sync of the last request."""
        return int(self._sync[0])

    def take_replies(self) -> bytes:
        """Return the replies that are ready and were not taken yet."""
        start, self._taken = self._taken, self._state[_OUTPUT]
        return bytes(self._output[start : self._taken])

    def run(
        self,
        session: Session,
        data: bytes,
        start: int,
        seconds: float,
        on_wait: OnWait,
        on_end: OnEnd,
        on_write: OnWrite,
    ) -> tuple[int, bytes | BoxError | None]:
        """Serve the requests of `data` from `start` on for about `seconds`.

        `on_wait(context)` is called for each function that waits, and returns whether the wave may go on;
        `on_end(type, context, outcome)` is called at the end of this function. `on_write(type, sync, write)` is called
        for each function that has ended with a write that is not complete, and returns whether the wave may go on; the
        end of the write is that of the request.

        Returns the number of requests taken, and the outcome of the last one: None if its reply is among the others or
        it waits; otherwise its results as one encoded array, or its error. Unless the outcome is None, `context` is the
        context of the last request, and the caller has to end a transaction that is open in it.
        """
        credentials = session.credentials
        if self._session is not None:
            return 0, None
        schema = self.node.schema
        if schema is not self._schema:
            self._attach(schema)
        size = self._size = min(len(data) - start, _INPUT_SIZE)
        self._input[:size] = data[start : start + size] if start or size < len(data) else data
        state = self._state
        state[_POSITION] = state[_OUTPUT] = self._taken = self._served = 0
        state[_VERSION], state[_LIMITED] = schema.version & _U32, not may_execute_all(credentials)
        self._session, self._credentials, self._owner, self.context = session, credentials, None, None
        self._on_wait, self._on_end, self._on_write = on_wait, on_end, on_write
        try:
            outcome = self._outcome(self.runtime.start_wave(self._make_context, self._entry, size, seconds))
        finally:
            self._session = self._on_wait = self._on_end = self._on_write = None
            self._count()
            session.sync = self.sync
        return self._served, outcome

    def _outcome(self, outcome: Any) -> bytes | BoxError | None:
        """Convert the result of the Lua function to the outcome that `run` returns."""
        if outcome is True:  # all functions wait
            return None
        is_right, value = outcome
        if is_right and value == _DONE:
            return None
        ctx = self.context or self._make_context()
        ctx.settle()
        if is_right:
            return _NO_RESULTS if value == _IN_TRANSACTION else cast(bytes, value)
        return decode_error(value)

    def _told(self, on_end: OnEnd, kind: int, ctx: RequestContext, fiber_id: int, outcome: Values | BoxError) -> None:
        """End the context of a function that has waited, and pass its results or its error on."""
        self.runtime.fiber_ended(fiber_id)
        on_end(kind, ctx, outcome if isinstance(outcome, BoxError) else cast(bytes, outcome[0]))

    def _attach(self, schema: Schema) -> None:
        self._schema = schema
        schema.on_change.append(self._note_change)
        self._note_change()
        self._entry = self.runtime.handle_of("box.call_wave")
