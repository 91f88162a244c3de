"""The Python half of `box.call_wave`: runs the calls of one read of a client with one entry into Lua.

```
state    uint32 x 16  position after the last packet taken, bytes of replies, CALLs, EVALs, type of the last request,
                      schema version, whether the dictionary has changed, whether the user may not execute everything;
                      number of the wave, whether functions may use direct reads, how many of them wait, how many may;
                      of late replies: their wave, their number and bytes, the bytes of the largest
sync     double       the sync of the last request
input    packets as they came
output   reply packets
late     reply packets of functions that have waited
```

Lua and Python share this memory. The context of the functions is made when one of them first needs it; the following
functions use it too, as long as it is left as it was and none of them waits. A function that waits keeps the context.

Reads and usual writes need no context of their own (`Runtime.passing_ctx`), so most functions that wait have none. Lua
writes their late replies, and Python takes those of all functions that have ended in a round of fibers together.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from box.data.marks import FIXARRAY
from box.errors import BoxError
from box.iproto.output import LARGE_SIZE
from box.schema.access import may_execute_all
from box.session import Context, RequestContext
from box.wire.constants import RequestType
from lua.bindings.binding import Binding, exported, text
from lua.boundary import decode_error, encode_error
from lua.fiber import ANSWERED, WAVE, WOKEN

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.iproto.interface import CallerLike
    from box.schema.access import Credentials
    from box.schema.schema import Schema
    from box.session import Session
    from lua.runtime import Runtime, Values

_POSITION, _OUTPUT, _CALLS, _EVALS, _KIND, _VERSION, _CHANGED, _LIMITED = range(8)
_WAVE, _READS, _WAITING, _ROOM, _LATE_WAVE, _LATE_COUNT, _LATE_SIZE, _LARGEST = range(8, 16)
_STATE_SIZE: Final = 16
_INPUT_SIZE: Final = 65536
_OUTPUT_SIZE: Final = 131072
"""The most bytes of packets (input) and of replies (output) in one wave; the rest comes in the next wave."""
_U32: Final = 0xFFFFFFFF
"""A mask: values in the shared memory have 32 bits, as the schema version in replies has."""
_CLEAN, _DIRTY, _OPEN = range(3)
_DONE, _IN_TRANSACTION = range(2)
_GLOBAL: Final = -1
"""The result of `look_up` for a function that is not in `_func`."""
_NO_RESULTS: Final = bytes((FIXARRAY,))


class _PassingContext(Context):
    """The context of functions of a wave that have none, for operations that neither change nor keep it."""

    __slots__ = ("_lasting",)

    def __init__(self, session: Session, lasting: Callable[[], Context]) -> None:
        super().__init__(session)
        self._lasting = lasting

    @property
    def lasting(self) -> Context:
        return self._lasting()


class _Wave:
    """A wave. `waiting` is the number of its functions that have waited and have not ended."""

    __slots__ = ("client", "credentials", "session", "waiting")

    def __init__(self, client: CallerLike, session: Session) -> None:
        self.client = client
        self.session = session
        self.credentials = session.credentials
        self.waiting = 0


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
        self._late_memory = (ctypes.c_uint8 * _OUTPUT_SIZE)()
        self._state = memoryview(self._state_memory).cast("B").cast("I")
        self._sync = memoryview(self._sync_memory).cast("B").cast("d")
        self._input = memoryview(self._input_memory).cast("B")
        self._output = memoryview(self._output_memory).cast("B")
        self._late = memoryview(self._late_memory).cast("B")
        self._taken = 0
        """The number of bytes of replies that were taken already."""
        self._served = 0
        self._session: Session | None = None
        """The session of the running wave, or None."""
        self._number = 0
        self._waves: dict[int, _Wave] = {}
        """The running wave, and those with functions that wait, by their numbers."""
        self._credentials: Credentials | None = None
        self._owner: Credentials | None = None
        """The rights of the running function, or None if it has those of the session."""
        self._schema: Schema | None = None
        self._room = 0
        """The number of requests that may wait for something, less that of functions which have ended with writes."""
        self.context: _SharedContext | None = None
        super().__init__(runtime, node)
        node.stats.settle = self._count
        runtime.waves = self
        runtime.waits.on_answered = self.take_late
        self._entry = 0

    @exported("call_wave_memory")
    def memory(self) -> tuple[float, float, float, float, float, int]:
        """Return the addresses of the shared memory, and the size of the output and of the late replies."""
        memories = (
            self._state_memory,
            self._sync_memory,
            self._input_memory,
            self._output_memory,
            self._late_memory,
        )
        state, sync, read, written, late = (float(ctypes.addressof(memory)) for memory in memories)
        return state, sync, read, written, late, _OUTPUT_SIZE

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

    @exported("call_keeps_context")
    def keeps_context(self) -> int:
        """Leave the context to the last function, which waits. Returns 1 if the wave may go on."""
        wave, ctx = self._waves[self._number], self.context
        if ctx is not None:
            ctx.settle()
            ctx.has_waited = True
        self.context = self._owner = None
        return int(wave.client.takes_calls and wave.session.credentials is self._credentials)

    @exported("call_ended")
    def ended(self, number: int, sync: float, fiber_id: int, is_right: bool, value: bytes) -> None:
        """Pass on how a function has ended that has waited and needs more than a reply: its results as one encoded
        array, or its error.
        """
        self.take_late()
        wave, ctx = self._waves[number], self.runtime.contexts.get(fiber_id) or self.make_context_of(number, sync)
        self.runtime.fiber_ended(fiber_id)
        self._leave(number, 1)
        wave.client.function_ended(ctx, value if is_right else decode_error(value))

    @exported("call_take_late")
    def take_late(self) -> None:
        """Send the replies of functions that have waited, and have ended since the last call."""
        state = self._state
        count = state[_LATE_COUNT]
        self.runtime.cells[ANSWERED] = 0
        if count:
            number, replies, largest = state[_LATE_WAVE], bytes(self._late[: state[_LATE_SIZE]]), state[_LARGEST]
            state[_LATE_COUNT] = state[_LATE_SIZE] = state[_LARGEST] = 0
            client = self._waves[number].client
            self._leave(number, count)
            client.functions_ended(replies, count, largest)

    def _leave(self, number: int, count: int) -> None:
        wave = self._waves[number]
        wave.waiting -= count
        if not wave.waiting:
            self._forget(number)

    def _forget(self, number: int) -> None:
        del self._waves[number], self.runtime.passing_contexts[number]

    @exported("call_ends_with")
    def ends_with(self, token: int) -> int | None:
        """Reply to the last function when the write of `token`, its last act, has ended. Returns as `is_clean` does;
        or None if the function has to wait, because the write runs triggers, or has no result or a large one.
        """
        write = self._waits.last_write
        assert write is not None
        if write.done or write.may_be_cancelled or (result := write.result) is None or len(result) >= LARGE_SIZE:
            return None
        self._waits.forget_token(token)
        write.forget_callers()
        state, room = self._state, self._room - 1
        self._waves[self._number].client.function_writes(int(self._sync[0]), write)
        self._room = room
        if room < state[_ROOM]:
            state[_ROOM] = max(room, 0)
        if state[_WAITING] >= room:
            return _DIRTY
        return _CLEAN if self.context is None else self.is_clean()

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
        """True if fibers have not gone on yet whose waits have ended, or there are replies that were not taken yet."""
        cells = self.runtime.cells
        return cells[WOKEN] > 0 or cells[ANSWERED] > 0 or self._session is not None

    def _lasting(self) -> Context:
        ctx: Context = self.runtime.ctx
        return ctx

    def make_context(self) -> _SharedContext:
        session = self._session
        assert session is not None
        ctx = self.context = _SharedContext(session, self._sync)
        session.sync = int(self._sync[0])
        return ctx

    def make_context_of(self, wave: int, sync: float) -> RequestContext:
        found = self._waves[wave]
        ctx = RequestContext(found.session, int(sync))
        ctx.credentials, ctx.has_waited = found.credentials, True
        return ctx

    @property
    def is_running(self) -> bool:
        return self._session is not None

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
        self, client: CallerLike, session: Session, data: bytes, start: int, seconds: float
    ) -> tuple[int, bytes | BoxError | None]:
        """Serve the requests of `data` from `start` on for about `seconds`.

        `client` limits how many functions wait. It is told of their number before the end of this method, and of their
        ends later; and of each function that ends with a write that is not complete.

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
        size = min(len(data) - start, _INPUT_SIZE)
        self._input[:size] = data[start : start + size] if start or size < len(data) else data
        state = self._state
        state[_POSITION] = state[_OUTPUT] = self._taken = self._served = 0
        state[_VERSION], state[_LIMITED] = schema.version & _U32, not may_execute_all(credentials)
        number = self._number = state[_WAVE] = (self._number + 1) & _U32
        wave = self._waves[number] = _Wave(client, session)
        self.runtime.passing_contexts[number] = _PassingContext(session, self._lasting)
        self.runtime.cells[WAVE] = number
        state[_READS] = credentials.is_admin and not self.node.tuples.allows_yield
        self._room, window = client.rooms
        state[_WAITING], state[_ROOM] = 0, max(min(self._room, window), 0)
        self._session, self._credentials, self._owner, self.context = session, credentials, None, None
        try:
            outcome = self._outcome(self.runtime.start_wave(self._entry, size, seconds))
        finally:
            self._session = None
            wave.waiting = state[_WAITING]
            if wave.waiting:
                client.functions_wait(wave.waiting)
            else:
                self._forget(number)
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
        ctx = self.context or self.make_context()
        ctx.settle()
        if is_right:
            return _NO_RESULTS if value == _IN_TRANSACTION else cast(bytes, value)
        return decode_error(value)

    def _attach(self, schema: Schema) -> None:
        self._schema = schema
        schema.on_change.append(self._note_change)
        self._note_change()
        self._entry = self.runtime.handle_of("box.call_wave")
