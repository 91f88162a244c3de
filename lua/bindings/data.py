"""Reads and writes of spaces: the hot paths of `space:get()`, `space:replace()` and `pairs()`.

A key of one number or string arrives as that value, any other key as a MessagePack array; tuples are MessagePack. A
write returns None if the stored tuple is the one sent, so that Lua keeps its own bytes, and True if there is no tuple
to return. Tuples of the hottest calls carry salt (`lua.salt`): those that a write sends and returns, and those that a
direct look-up finds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from box.data.codec import pack, unpack
from box.data.collation import is_binary
from box.data.format import TupleFormat
from box.data.json_path import PathError, follow, parse_field_path
from box.data.types import FieldType
from box.data.update import apply_update, apply_upsert
from box.errors import BoxError, ErrorCode, client_error
from box.schema.access import Privilege
from box.txn.pending import Outcome as WriteOutcome
from box.txn.pending import Pending
from box.wire.change import DELETE, INSERT, REPLACE, UPDATE, UPSERT, Request
from box.wire.constants import RequestType
from lua.bindings.binding import Binding, Outcome, exported, guarded, text
from lua.bindings.cursor import OneByOne, ReadAhead, open_cursor
from lua.bindings.direct_reads import look_up_in, searches_in
from lua.bindings.tuple_images import TupleImages
from lua.fiber import RUNNING_FIBER
from lua.salt import SALT_SIZE, salter

if TYPE_CHECKING:
    from box.index import Index
    from box.instance.node import Instance
    from box.schema.space import Space
    from lua.runtime import Runtime

_NO_TUPLE = True
_NO_FORMAT = TupleFormat()
_NO_KEY: list[Any] = []
_NO_OPERATIONS: list[Any] = []
_CODES = {code.encode(): code for code in "+-=&|^!#:"}
"""The codes of update operations by their bytes."""
_DROPPED_LIMIT = 128
"""The number of dropped spaces whose formats are kept, for tuples that Lua still has."""
_NUMBERS = frozenset((FieldType.UNSIGNED, FieldType.INTEGER, FieldType.NUMBER))
"""The types of key parts for which Lua passes a number."""


def _key_values(key: Any) -> list[Any]:
    """Return the values of a change's key: one number, or a MessagePack value with salt that must be an array.

    Raises:
        ClientError: TUPLE_NOT_ARRAY.
    """
    if type(key) is not bytes:
        return [key]
    values = unpack(key[:-SALT_SIZE])
    if type(values) is not list:
        raise client_error(ErrorCode.TUPLE_NOT_ARRAY)
    return values


def _storing(name: str, request_type: int) -> Callable[[DataBinding, int, bytes], Outcome]:
    """Make the method for insert or replace. They share this code instead of a call, because they are the hottest
    writes.
    """

    @exported(name)
    def store(self: DataBinding, space_id: int, salted: bytes) -> Outcome:
        try:
            node, raw = self.node, salted[:-SALT_SIZE]
            space = node.schema.spaces[space_id]
            ctx = self._contexts.get(self._cells[RUNNING_FIBER]) or self.runtime.passing_ctx()
            dml = node.dml
            store = dml.store_now if dml.has_versions and self._runs_alone() else dml.store
            stored = store(ctx, space, request_type, raw)
            if stored is raw:
                return None
            if isinstance(stored, Pending):
                return self.later(stored, None if stored.result is raw else self._with_salt)
            return self._with_salt(stored)
        except (BoxError, KeyError) as error:
            return self._refused(error, space_id)

    return store


class DataBinding(Binding):
    """Reads and writes of spaces, for Lua."""

    is_direct = True

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._cursors: dict[int, ReadAhead | OneByOne] = {}
        self._last_cursor = 0
        self._dropped: dict[int, TupleFormat] = {}
        self._salt = salter()
        self._images = TupleImages()
        self._contexts, self._cells, self._runs_alone = runtime.contexts, runtime.cells, runtime.waits.runs_alone

    # Reads

    @exported("index_get")
    def get(self, space_id: int, iid: int, key: Any) -> Outcome:
        """Look up a tuple by a key of one number or string. Returns the tuple with salt."""
        try:
            if type(key) is bytes:
                key = key.decode("utf-8", "surrogateescape")
            ctx = self._contexts.get(self._cells[RUNNING_FIBER]) or self.runtime.passing_ctx()
            raw = self.node.dml.reads.get(ctx, self.node.schema.spaces[space_id], iid, [key])
            return raw + self._salt() if isinstance(raw, bytes) else raw
        except BoxError as error:
            return self.failure(error)
        except KeyError:
            return self._no_space(space_id)

    @exported("reads_directly")
    def reads_directly(self) -> int:
        """Return 1 if the running fiber may read indexes directly: admin, no tuple versions, no limited transaction.

        The caller is about to read a memtx space, which binds an open transaction to its engine.
        """
        ctx = self.runtime.ctx
        if not ctx.credentials.is_admin or self.node.tuples.allows_yield:
            return 0
        txn = ctx.txn
        return 1 if txn is None else int(self.node.txns.reads_as_others(txn, self.node.dml.memtx))

    @exported("index_finder")
    def finder(self, space_id: int, iid: int) -> Outcome:
        """Return 'number' or 'string' and a look-up in the index's container, if its keys are single values of that
        kind.

        The look-up is that of `look_up_in`; it never raises for a key of its kind.
        """
        space = self.node.schema.spaces.get(space_id)
        index = None if space is None else space.indexes.get(iid)
        if space is None or index is None or not space.is_plain or self.node.tuples.allows_yield:
            return None
        parts = index.definition.parts
        part = parts[0]
        if len(parts) > 1 or part.is_nullable or not index.is_unique or "func" in index.definition.opts:
            return None
        if part.type in _NUMBERS:
            return b"number", *look_up_in(index, self._salt)
        if part.type is FieldType.STRING and is_binary(part.collation_id):
            return b"string", *look_up_in(index, self._salt)
        return None

    @exported("index_may_search")
    def may_search(self) -> int | None:
        """Return what `reads_directly` does, or None if that would bind an open transaction.

        The first read of a transaction checks its key before it binds, so it takes the general path.
        """
        txn = self.runtime.ctx.txn
        return None if txn is not None and txn.engine is None else self.reads_directly()

    @exported("index_searches")
    def searches(self, space_id: int, iid: int) -> Outcome:
        """Return the searches of `searches_in` in an index whose entries are the tuples that every reader sees."""
        space = self.node.schema.spaces.get(space_id)
        index = None if space is None else space.indexes.get(iid)
        if space is None or index is None or not space.is_plain or self.node.tuples.allows_yield:
            return None
        return tuple(searches_in(space, index, self._images, self._keep))

    @exported("count_done")
    def count_done(self, reads: int, errors: int) -> None:
        """Count the look-ups and client errors that Lua made without Python since the last call."""
        self.node.dml.counters[RequestType.SELECT] += int(reads)
        self.node.stats.count_lua_errors(int(errors))

    @guarded("index_get_key")
    def get_key(self, space_id: int, iid: int, key: bytes) -> Outcome:
        """Look up a tuple by a key of any number of parts, with salt. Returns the tuple with salt."""
        raw = self.node.dml.reads.get(self.ctx, self.node.schema.space(space_id), iid, unpack(key[:-SALT_SIZE]))
        return raw + self._salt() if isinstance(raw, bytes) else raw

    @exported("index_select")
    def select(self, space_id: int, iid: int, iterator: int, offset: float, limit: float, key: bytes) -> Outcome:
        """Select tuples by a key with salt. Returns their images and sizes."""
        try:
            node, ctx = self.node, self._contexts.get(self._cells[RUNNING_FIBER]) or self.runtime.passing_ctx()
            space = node.schema.space(space_id)
            rows = node.dml.reads.select(
                ctx, space, iid, int(iterator), int(offset), int(limit), unpack(key[:-SALT_SIZE])
            )
        except BoxError as error:
            return self.failure(error)
        return self._images.blob(rows, space_id)

    @exported("index_select_by")
    def select_by(self, space_id: int, iid: int, iterator: int, offset: float, limit: float, value: Any) -> Outcome:
        """Select tuples as `select` does, by a key of one number or string."""
        try:
            if type(value) is bytes:
                value = value.decode("utf-8", "surrogateescape")
            node, ctx = self.node, self._contexts.get(self._cells[RUNNING_FIBER]) or self.runtime.passing_ctx()
            space = node.schema.space(space_id)
            rows = node.dml.reads.select(ctx, space, iid, int(iterator), int(offset), int(limit), [value])
        except BoxError as error:
            return self.failure(error)
        return self._images.blob(rows, space_id)

    @guarded("index_page")
    def page(
        self, space_id: int, iid: int, iterator: int, offset: float, limit: float, key: bytes, after: bytes, fetch: bool
    ) -> Outcome:
        """Select tuples after a position. Returns their images, their sizes and the position of the last one."""
        space, reads = self.node.schema.space(space_id), self.node.dml.reads
        arguments = (iid, int(iterator), int(offset), int(limit), unpack(key[:-SALT_SIZE]))
        if not after and not fetch:
            return self._images.blob(reads.select(self.ctx, space, *arguments), int(space_id))
        page = reads.page(self.ctx, space, *arguments, after)
        return *self._images.blob(page.rows, int(space_id)), page.position if fetch else None

    @guarded("index_position")
    def position(self, space_id: int, iid: int, raw: bytes) -> Outcome:
        """Return the position just after a tuple."""
        return self.node.dml.reads.position(self.ctx, self.node.schema.space(space_id), iid, unpack(raw))

    @guarded("index_count")
    def count(self, space_id: int, iid: int, iterator: int, key: bytes) -> Outcome:
        """Count the tuples of a scan."""
        return self.node.dml.reads.count(self.ctx, self.node.schema.space(space_id), iid, int(iterator), unpack(key))

    @guarded("index_min")
    def min(self, space_id: int, iid: int, key: bytes) -> Outcome:
        """Return the first tuple with a partial key."""
        return self.node.dml.reads.min(self.ctx, self.node.schema.space(space_id), iid, unpack(key))

    @guarded("index_max")
    def max(self, space_id: int, iid: int, key: bytes) -> Outcome:
        """Return the last tuple with a partial key."""
        return self.node.dml.reads.max(self.ctx, self.node.schema.space(space_id), iid, unpack(key))

    @guarded("index_random")
    def random(self, space_id: int, iid: int, seed: int) -> Outcome:
        """Return the tuple that `seed` selects."""
        return self.node.dml.reads.random(self.ctx, self.node.schema.space(space_id), iid, int(seed) & 0xFFFFFFFF)

    @guarded("index_len")
    def len(self, space_id: int, iid: int) -> Outcome:
        """Return the number of tuples in an index."""
        return self.node.dml.reads.len(self.ctx, self.node.schema.space(space_id), iid)

    @guarded("index_bsize")
    def index_bsize(self, space_id: int, iid: int) -> Outcome:
        """Return the size of an index in bytes."""
        return self._readable(space_id, iid).bsize()

    @guarded("index_check")
    def index_check(self, space_id: int, iid: int) -> Outcome:
        """Check that the index exists and that the running fiber's user may read it."""
        self._readable(space_id, iid)
        return None

    def _readable(self, space_id: int, iid: int) -> Index:
        space = self.node.schema.space(space_id)
        space.check_access(self.ctx.credentials, Privilege.R)
        return space.index(iid)

    @guarded("space_bsize")
    def space_bsize(self, space_id: int) -> Outcome:
        """Return the size of all tuples of a space in bytes."""
        return self.node.dml.reads.bsize(self.node.schema.space(space_id))

    # Cursors

    @guarded("cursor_open")
    def cursor_open(self, space_id: int, iid: int, iterator: int, key: bytes, after: bytes, size: int) -> Outcome:
        """Open a cursor after a position (b"" is the beginning), and return its number. A cursor that reads ahead comes
        with its first `size` tuples, as `cursor_next` returns it.
        """
        space = self.node.schema.space(space_id)
        cursor = open_cursor(self.node.dml, self.ctx, space, iid, int(iterator), unpack(key), after)
        number = self._keep(cursor)
        if type(cursor) is OneByOne:
            return number
        return number, *self._images.blob(cursor.fetch(size, 0) or [], int(space_id))

    def _keep(self, cursor: ReadAhead | OneByOne) -> int:
        """Return the number by which Lua finds a cursor until it closes it."""
        self._last_cursor += 1
        self._cursors[self._last_cursor] = cursor
        return self._last_cursor

    @exported("cursor_next")
    def cursor_next(self, number: int, size: int, used: int, space_id: int) -> Outcome:
        """Return up to `size` more tuples as images and their sizes, or None at the end, where the cursor closes
        itself.

        `used` tuples of the last chunk were consumed. The result True means that the remaining ones are still valid.
        """
        cursor = self._cursors.get(number)
        if cursor is None:
            return None
        try:
            rows = cursor.fetch(size, used)
        except BoxError as error:
            return self.failure(error)
        if rows is None:
            return True
        if not rows:
            del self._cursors[number]
            return None
        return self._images.blob(rows, space_id)

    @exported("cursor_close")
    def cursor_close(self, number: int) -> None:
        """Forget a cursor."""
        self._cursors.pop(number, None)

    # Writes

    replace = _storing("space_replace", REPLACE)
    insert = _storing("space_insert", INSERT)

    @exported("index_update")
    def update(self, space_id: int, iid: int, key: Any, ops: bytes) -> Outcome:
        """Update a tuple. Returns the new one, or True if the key is absent."""
        try:
            values = _key_values(key) if type(key) is bytes else [key]
            return self._change(space_id, UPDATE, Request(UPDATE, b"", values, unpack(ops[:-SALT_SIZE]), int(iid), 1))
        except (BoxError, KeyError) as error:
            return self._refused(error, space_id)

    @exported("index_update_one")
    def update_one(self, space_id: int, iid: int, key: Any, code: bytes, place: Any, argument: Any) -> Outcome:
        """Update a tuple by one plain operation, as `update` does.

        A part of the operation is a text, which arrives as bytes, or a number that a double holds exactly; `argument`
        may be a boolean.
        """
        try:
            values = _key_values(key) if type(key) is bytes else [key]
            if type(argument) is bytes:
                argument = argument.decode("utf-8", "surrogateescape")
            if type(place) is bytes:
                place = place.decode("utf-8", "surrogateescape")
            ops = [[_CODES.get(code) or text(code), place, argument]]
            request = Request(UPDATE, b"", values, ops, int(iid), 1)
            found = self._store(space_id, UPDATE, request)
            return found + self._salt() if type(found) is bytes else self._found(found)
        except (BoxError, KeyError) as error:
            return self._refused(error, space_id)

    @exported("index_delete")
    def delete(self, space_id: int, iid: int, key: Any) -> Outcome:
        """Delete a tuple. Returns it, or True if the key is absent."""
        try:
            values = _key_values(key) if type(key) is bytes else [key]
            return self._change(space_id, DELETE, Request(DELETE, b"", values, _NO_OPERATIONS, int(iid)))
        except (BoxError, KeyError) as error:
            return self._refused(error, space_id)

    @exported("space_upsert")
    def upsert(self, space_id: int, salted: bytes, ops: bytes) -> Outcome:
        """Insert or update a tuple. Returns True, or the tuple that a before_replace trigger has put there instead."""
        try:
            request = Request(UPSERT, salted[:-SALT_SIZE], _NO_KEY, unpack(ops[:-SALT_SIZE]), 0, 1)
            return self._change(space_id, UPSERT, request)
        except (BoxError, KeyError) as error:
            return self._refused(error, space_id)

    @exported("space_upsert_one")
    def upsert_one(self, space_id: int, salted: bytes, code: bytes, place: Any, argument: Any) -> Outcome:
        """Insert a tuple, or update it by one plain operation, as `upsert` does; see `update_one`."""
        try:
            if type(argument) is bytes:
                argument = argument.decode("utf-8", "surrogateescape")
            if type(place) is bytes:
                place = place.decode("utf-8", "surrogateescape")
            ops = [[_CODES.get(code) or text(code), place, argument]]
            request = Request(UPSERT, salted[:-SALT_SIZE], _NO_KEY, ops, 0, 1)
            found = self._store(space_id, UPSERT, request)
            return _NO_TUPLE if found is None else self._found(found)
        except (BoxError, KeyError) as error:
            return self._refused(error, space_id)

    def _store(self, space_id: int, kind: int, request: Request) -> WriteOutcome:
        node = self.node
        space = node.schema.spaces[space_id]
        ctx = self._contexts.get(self._cells[RUNNING_FIBER]) or self.runtime.passing_ctx()
        dml = node.dml
        store = dml.store_now if dml.has_versions and self._runs_alone() else dml.store
        return store(ctx, space, kind, request.tuple, request)

    def _change(self, space_id: int, kind: int, request: Request) -> Outcome:
        found = self._store(space_id, kind, request)
        return found + self._salt() if type(found) is bytes else self._found(found)

    def _found(self, found: WriteOutcome) -> Outcome:
        """Return to Lua what a write has returned: a tuple with salt, True for none, or a token."""
        return self.later(found, self._with_salt) if isinstance(found, Pending) else self._with_salt(found)

    def _with_salt(self, raw: bytes | None) -> Outcome:
        return _NO_TUPLE if raw is None else raw + self._salt()

    def _refused(self, error: BoxError | KeyError, space_id: int) -> Outcome:
        return self.failure(error) if isinstance(error, BoxError) else self._no_space(space_id)

    def _no_space(self, space_id: int) -> Outcome:
        try:
            self.node.schema.space(space_id)
        except BoxError as error:
            return self.failure(error)
        raise AssertionError(f"a key error inside space {space_id}")

    # Checks and triggers of a space

    @guarded("space_validate")
    def validate(self, space_id: int, raw: bytes) -> Outcome:
        """Check a tuple against the space's format."""
        self.node.schema.space(space_id).format.validate(raw)
        return True

    @guarded("space_run_triggers")
    def run_triggers(self, space_id: int, is_enabled: Any) -> Outcome:
        """Switch the user's triggers of a space on or off."""
        self.node.schema.space(space_id).run_triggers = bool(is_enabled)
        return None

    # Tuples that Lua holds, with the format of their space

    def _format(self, space_id: int) -> TupleFormat:
        """Return the format of a space, even of one dropped lately; an unknown id has the format without rules."""
        space = self.node.schema.spaces.get(int(space_id))
        return self._dropped.get(int(space_id), _NO_FORMAT) if space is None else space.format

    @guarded("tuple_formats_attach")
    def attach(self) -> None:
        """Keep the formats of spaces that are dropped from now on."""
        hooks = self.node.schema.on_alter_spaces
        if self._spaces_changed not in hooks:
            hooks.append(self._spaces_changed)

    def _spaces_changed(self, spaces: list[Space]) -> None:
        for space in spaces:
            self._dropped.pop(space.id, None)
            self._images.forget(space.id)
            if not self.node.schema.has_space(space.id):
                self._dropped[space.id] = space.format
                if len(self._dropped) > _DROPPED_LIMIT:
                    del self._dropped[next(iter(self._dropped))]

    @guarded("tuple_update")
    def tuple_update(self, raw: bytes, ops: bytes, space_id: int) -> Outcome:
        """Run `tuple:update()`. Returns the new tuple, which fits the format of the old tuple's space."""
        return self._changed(apply_update, raw, ops, space_id)

    @guarded("tuple_upsert")
    def tuple_upsert(self, raw: bytes, ops: bytes, space_id: int) -> Outcome:
        """Run `tuple:upsert()`: `tuple:update()` that ignores operations which cannot be applied."""
        return self._changed(apply_upsert, raw, ops, space_id)

    def _changed(self, apply: Callable[..., bytes], raw: bytes, ops: bytes, space_id: int) -> bytes:
        form = self._format(space_id)
        new = apply(raw, unpack(ops[:-SALT_SIZE]), fmt=form)
        form.validate(new)
        return new

    @guarded("tuple_path")
    def tuple_path(self, raw: bytes, path: bytes, space_id: int) -> Outcome:
        """Return the packed value at a full JSON path, or None if there is none."""
        try:
            steps = parse_field_path(text(path))
        except PathError:
            return None
        if steps and isinstance(steps[0], str):
            number = self._format(space_id).names.get(steps[0])
            if number is None:
                return None
            steps = (number, *steps[1:])
        value = follow(unpack(raw), steps)
        return None if value is None else pack(value)
