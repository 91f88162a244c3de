"""The fast paths of INSERT, REPLACE, UPDATE and DELETE of one row by its key; see `point_statements.py`.

A row goes through the writer of its space (`Dml.point_writer`), if the space has one; otherwise through `Dml`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from box.data.codec import pack, unpack
from box.data.types import compiled_source
from box.sql.casts import convert
from box.sql.not_null import check_nil
from box.sql.point_keys import PLAIN, PointKey, ValuePlaces
from box.sql.stored_values import Value
from box.txn.pending import Outcome, Pending
from box.wire.change import INSERT, REPLACE, Request

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from box.txn.dml import Dml
    from box.txn.transaction_writes import RowWriter

Written = tuple[int, Outcome]
"""The number of changed rows, and the outcome of the write: complete unless it is a `Pending`."""
PendingChange = tuple[int, Pending]
_SAME: Final[dict[str, frozenset[type]]] = {
    "integer": frozenset((int,)),
    "double": frozenset((float,)),
    "string": frozenset((str,)),
    "boolean": frozenset((bool,)),
    "varbinary": frozenset((bytes,)),
    "number": frozenset((int, float)),
    "scalar": frozenset((bool, int, float, str, bytes)),
    "any": frozenset((bool, int, float, str, bytes)),
}
"""For each column type, the types of values that are stored without a conversion."""


class PointChange:
    """A statement that changes one row."""

    is_query: ClassVar[Literal[False]] = False
    __slots__ = ("_count", "_dml", "space")

    def __init__(self, dml: Dml, space: Space, count: int) -> None:
        self._dml = dml
        self.space = space
        """The space that the statement concerns."""
        self._count = count
        """The number of parameters."""

    def run(self, ctx: Context, params: Sequence[Value]) -> Written | None:
        """Change the row. Returns None, having done nothing, for values that need the general path.

        Raises:
            BoxError: see `Sql.execute`.
        """
        if len(params) != self._count or self.space.has_triggers:
            return None
        return self._run(ctx, list(params), self._dml.point_writer(ctx, self.space))

    def run_all(self, ctx: Context, many: list[list[Value]]) -> list[int]:
        """Run the statement in the open transaction for each list of parameters, up to the first that needs the general
        path. Returns the number of changed rows for each.

        Raises:
            BoxError: see `run`; the statements before the wrong one have run.
        """
        counts: list[int] = []
        if self.space.has_triggers:
            return counts
        run, count, writer = self._run, self._count, self._dml.point_writer(ctx, self.space)
        for params in many:
            written = run(ctx, params, writer) if len(params) == count else None
            if written is None:
                break
            counts.append(written[0])
        return counts

    def run_many(self, ctx: Context, many: list[list[Value]]) -> list[int | PendingChange | Exception]:
        """Run the statement for each list of parameters, up to the first that needs the general path.

        Returns for each the number of changed rows, with the `Pending` of a write that is not complete, or the error of
        `run`.
        """
        done: list[int | PendingChange | Exception] = []
        if self.space.has_triggers:
            return done
        run, count, writer = self._run, self._count, self._dml.point_writer(ctx, self.space)
        for params in many:
            try:
                written = run(ctx, params, writer) if len(params) == count else None
            except Exception as error:
                done.append(error)
                continue
            if written is None:
                break
            changed, outcome = written
            is_complete = outcome is None or not isinstance(outcome, Pending)
            done.append(changed if is_complete else written)  # type: ignore[arg-type]
        return done

    def _run(self, ctx: Context, params: list[Value], writer: RowWriter | None) -> Written | None:
        """Change the row, through the writer if there is one; see `run`."""
        raise NotImplementedError


class PointInsert(PointChange):
    """The fast path of `INSERT ... VALUES (?, ...)`, and of `REPLACE`, which removes an existing row."""

    __slots__ = ("_constants", "_has_row", "_is_plain", "_is_replace", "_numbers", "_types")

    def __init__(self, dml: Dml, space: Space, row: ValuePlaces, action: str, count: int) -> None:
        super().__init__(dml, space, count)
        self._numbers = row.numbers
        self._constants = row.constants
        self._has_row = row.are_parameters(count)
        """True if the parameters, in their order, are the row."""
        self._is_replace = action == "REPLACE"
        self._types = [field.type.value for field in space.definition.fields]
        self._is_plain = _compile_is_plain(self._types)
        """Returns whether the values of a row, as many as it has columns, are stored without a conversion."""

    def _run(self, ctx: Context, params: list[Value], writer: RowWriter | None) -> Written | None:
        space = self.space
        if space.sequence is not None:
            return None
        row = params
        if not self._has_row:
            values = [*params, *self._constants]
            row = [values[number] for number in self._numbers]
        if not self._is_plain(row):
            if not PLAIN.issuperset(map(type, params)):
                return None
            row = [None if value != value else value for value in row]  # a parameter NaN is nil
            action = "REPLACE" if self._is_replace else "ABORT"
            if not check_nil(space, row, action, -1):
                return 0, None
            row = [convert(value, name) for value, name in zip(row, self._types, strict=True)]
        raw = pack(row)
        if writer is None:
            return self._store(ctx, row, raw)
        if not self._is_replace:
            return 1, writer.insert(raw, row)
        is_new = writer.find(writer.parse(space.index(0).key_def.extract_values(row))) is None
        return 1 if is_new else 2, writer.replace(raw, row, is_new)

    @property
    def takes_many(self) -> bool:
        """True if rows may be stored together: nothing but the indexes has a say in them."""
        return not (self._is_replace or self.space.has_triggers or self.space.sequence is not None)

    def packed(self, params: Sequence[Any]) -> bytes | None:
        """Return the tuple for these parameters, or None if a value needs a conversion.

        Raises:
            ClientError: PROC_RET, an integer has more than 64 bits.
        """
        if len(params) != self._count:
            return None
        row = params
        if not self._has_row:
            values = [*params, *self._constants]
            row = [values[number] for number in self._numbers]
        return pack(list(row)) if self._is_plain(row) else None

    def _store(self, ctx: Context, row: list[Value], raw: bytes) -> Written:
        dml, space = self._dml, self.space
        if not self._is_replace:
            return 1, dml.store(ctx, space, INSERT, raw)
        key = space.index(0).key_def.extract_values(row)
        if dml.sql_reads.get(ctx, space, 0, key) is None:
            return 1, dml.store(ctx, space, REPLACE, raw)
        return self._exchange(ctx, key, raw)

    def _exchange(self, ctx: Context, key: list[Value], raw: bytes) -> Written:
        """Replace a row. As in Tarantool, the log gets a DELETE and an INSERT, and both are counted."""
        dml, txns, is_alone = self._dml, self._dml.txns, ctx.txn is None
        if is_alone:
            txns.begin_lone(ctx)  # nothing waits before its commit
        before = txns.savepoint(ctx)
        try:
            dml.write(ctx, self.space, Request.delete(key))
            dml.store(ctx, self.space, REPLACE, raw)
        except BaseException:
            if ctx.txn is not None and is_alone:
                txns.rollback_open(ctx, ctx.txn)
            elif ctx.txn is not None and before.is_valid_in(ctx.txn):
                txns.rollback_to_savepoint(ctx, before)
            raise
        return 2, dml.commit(ctx) if is_alone else None


class PointUpdate(PointChange):
    """The fast path of `UPDATE t SET column = ?, ... WHERE key = ?`."""

    __slots__ = ("_constants", "_is_nullable", "_key", "_numbers", "_places", "_size", "_types")

    def __init__(
        self, dml: Dml, space: Space, key: PointKey, places: list[int], values: ValuePlaces, count: int
    ) -> None:
        super().__init__(dml, space, count)
        fields = space.definition.fields
        self._key = key
        self._places = places
        self._numbers = values.numbers
        self._constants = values.constants
        self._types = [fields[place].type.value for place in places]
        self._is_nullable = all(fields[place].is_nullable for place in places)
        self._size = len(fields)

    def _run(self, ctx: Context, params: list[Value], writer: RowWriter | None) -> Written | None:
        space, dml = self.space, self._dml
        if not PLAIN.issuperset(map(type, params)):
            return None
        key = self._key.of(params)
        if key is None:
            return None
        if writer is None:
            raw = dml.sql_reads.get(ctx, space, 0, key)
        else:
            raw = writer.find(sort_key := writer.parse(key))
        if raw is None:
            return 0, None
        if count_of(raw) < self._size:
            return None  # the tuple lacks the field, and updating it needs the fields before it
        operations = self._operations(params)
        if not self._is_nullable and not self._has_values(raw, operations):
            return 0, None
        for operation, type_name in zip(operations, self._types, strict=True):
            operation[2] = convert(operation[2], type_name)
        operations.sort()
        if writer is None:
            return 1, dml.write(ctx, space, Request.update(key, operations))
        return 1, writer.update(key, sort_key, raw, operations)

    def _operations(self, params: list[Value]) -> list[list[Any]]:
        values = [*params, *self._constants] if self._constants else params
        operations: list[list[Any]] = []
        for place, number in zip(self._places, self._numbers, strict=True):
            value = values[number]
            operations.append(["=", place + 1, None if value != value else value])
        return operations

    def _has_values(self, raw: bytes, operations: list[list[Any]]) -> bool:
        """Return whether an update leaves no NOT NULL column without a value; see `check_nil`."""
        if all(value is not None for _, _, value in operations):
            return True
        new = unpack(raw)
        for _, place, value in operations:
            new[place - 1] = value
        return check_nil(self.space, new, "ABORT", -1)


class PointDelete(PointChange):
    """The fast path of `DELETE FROM t WHERE key = ?`."""

    __slots__ = ("_key",)

    def __init__(self, dml: Dml, space: Space, key: PointKey, count: int) -> None:
        super().__init__(dml, space, count)
        self._key = key

    def _run(self, ctx: Context, params: list[Value], writer: RowWriter | None) -> Written | None:
        key = self._key.of(params)
        if key is None:
            return None
        if writer is None:
            if self._dml.sql_reads.get(ctx, self.space, 0, key) is None:
                return 0, None
            return 1, self._dml.write(ctx, self.space, Request.delete(key))
        sort_key = writer.parse(key)
        old = writer.find(sort_key)
        return (0, None) if old is None else (1, writer.delete(key, sort_key, old))


def _compile_is_plain(types: list[str]) -> Callable[[Sequence[Value]], bool]:
    checks = []
    for number, name in enumerate(types):
        kinds = _SAME.get(name, frozenset())
        names = [kind.__name__ for kind in kinds]
        checks.append(f"type(r[{number}]) is {names[0]}" if len(names) == 1 else f"type(r[{number}]) in {name.upper()}")
        if float in kinds:
            checks.append(f"r[{number}] == r[{number}]")  # no NaN
    scope: dict[str, Any] = {name.upper(): _SAME.get(name, frozenset()) for name in types}
    exec(compiled_source(f"def is_plain(r):\n    return {' and '.join(checks)}\n"), scope)
    compiled: Callable[[Sequence[Value]], bool] = scope.pop("is_plain")
    return compiled


def count_of(raw: bytes) -> int:
    """Return the number of fields of a tuple."""
    return raw[0] & 0x0F if raw[0] < 0xA0 else int.from_bytes(raw[1 : 3 if raw[0] == 0xDC else 5], "big")
