"""Checks tuples by the constraints and foreign keys in formats, with the codes, texts and order of Tarantool 2.11.

A tuple to store: rules of the whole tuple, then for each field its type and its rules, then missing fields. A tuple
that goes must not be one that a foreign key needs, unless the new tuple has the same fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.schema.constraints import ConstraintDef, FieldName, ReferenceDef, Rule

if TYPE_CHECKING:
    from box.data.format import TupleFormat
    from box.index import Index
    from box.schema.function import Function
    from box.schema.schema import Schema
    from box.schema.space import Referrer, Space, SpaceDef
    from box.schema.sql_objects import RowCheck

_KEPT_TESTS: Final = 256

Find = Callable[["Space", "Index", list[Any]], bytes | None]
"""Finds a tuple by a key as the writer sees it, or returns None. In a unique index the key is a full key; in another
index any tuple whose key begins with it is found."""


def find_present(space: Space, index: Index, key: list[Any]) -> bytes | None:
    """Find a tuple without a transaction (see `Find`)."""
    entry = index.get(key) if index.is_unique else index.min(key)
    return space.engine.value_of(entry)


class RuleChecks:
    """Checks what users write to spaces with rules. `log` gets the errors of functions; the node sets it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.log: Callable[[BoxError], None] = lambda error: None
        self._tests: dict[tuple[str, int | None, int], tuple[SpaceDef, RowCheck]] = {}
        """The tests of expressions. Each holds the definition whose identity is in its key."""

    # -- a tuple to store

    def validate(self, definition: SpaceDef, fmt: TupleFormat, raw: bytes, find: Find) -> list[Any]:
        """Check a tuple by the format and all rules of a space's definition. Returns its fields.

        Raises:
            ClientError: those of `TupleFormat.validate`; FIELD_CONSTRAINT_FAILED, TUPLE_CONSTRAINT_FAILED,
                FIELD_FOREIGN_KEY_FAILED or COMPLEX_FOREIGN_KEY_FAILED.
        """
        fields = unpack(raw)
        if type(fields) is not list:
            return fmt.validate(raw)
        for rule in definition.rules.of_tuple:
            self._check(definition, fmt, rule, None, raw, fields, find)
        of_fields = dict(definition.rules.of_fields)

        def after(number: int, value: Any) -> None:
            if value is None and definition.fields[number].action == "none":
                return
            for rule in of_fields.get(number, ()):
                self._check(definition, fmt, rule, number, raw, value, find)

        return fmt.check(raw, fields, after)

    def _check(
        self,
        definition: SpaceDef,
        fmt: TupleFormat,
        rule: Rule,
        number: int | None,
        raw: bytes,
        value: Any,
        find: Find,
    ) -> None:
        if isinstance(rule, ReferenceDef):
            self._check_reference(definition, fmt, rule, number, value, find)
        elif not self._is_true(definition, rule, number, raw, value):
            if number is None:
                raise _failure(ErrorCode.TUPLE_CONSTRAINT_FAILED, rule.name)
            raise _failure(ErrorCode.FIELD_CONSTRAINT_FAILED, rule.name, fmt.field_text(number), field_id=number)

    def _is_true(self, definition: SpaceDef, rule: ConstraintDef, number: int | None, raw: bytes, value: Any) -> bool:
        function = self._schema.functions.get(rule.function_id)
        if function is None:
            return True  # a row of another instance has brought the constraint without its function
        try:
            if function.definition.language == "SQL_EXPR":
                return self._expression_holds(definition, rule, function, number, value)
            call = self._schema.check_value
            if call is None or not function.is_persistent:
                raise unsupported("A node without Lua", "constraints")
            if number is None:
                return call(function, raw, definition.id, rule.name)
            return call(function, pack([value]), None, rule.name)
        except BoxError as error:
            self.log(error)
            return False

    def _expression_holds(
        self, definition: SpaceDef, rule: ConstraintDef, function: Function, number: int | None, value: Any
    ) -> bool:
        key = function.definition.body, number, id(definition)
        known = self._tests.get(key)
        if known is None:
            if len(self._tests) >= _KEPT_TESTS:
                self._tests.clear()
            test = self._schema.sql.compile_function(definition, number, function.definition.body)
            known = self._tests[key] = (definition, test)
        return known[1](value if number is None else [value])

    def _check_reference(
        self, definition: SpaceDef, fmt: TupleFormat, key: ReferenceDef, number: int | None, value: Any, find: Find
    ) -> None:
        def wrong(text: str) -> BoxError:
            if number is None:
                return _failure(ErrorCode.COMPLEX_FOREIGN_KEY_FAILED, key.name, text)
            return _failure(ErrorCode.FIELD_FOREIGN_KEY_FAILED, key.name, fmt.field_text(number), text, field_id=number)

        space = self._schema.spaces.get(key.space_id or definition.id)
        there = [] if space is None else [_field_no(space.definition, name) for _, name in key.links]
        index = None if space is None or None in there else _index_of(space, there, is_unique=True)
        if space is None or index is None:
            raise wrong("foreign index was not found")
        if number is not None:
            values = [value]
        else:
            own = [_field_no(definition, name) for name, _ in key.links if name is not None]
            if None in own:
                raise wrong("wrong local field name")
            found = _values(value, own)
            if found is None:
                raise wrong("extract key failed")
            if all(one is None for one in found):
                return
            values = _in_order(index, there, found)
        if any(one is None for one in values):
            raise wrong("wrong key type")
        try:
            referred = find(space, index, values)
        except BoxError as error:
            raise wrong("wrong key type" if error.code == ErrorCode.KEY_PART_TYPE else "index get failed") from None
        if referred is None:
            raise wrong("foreign tuple was not found")

    # -- a tuple that goes

    def check_removal(self, space: Space, old: bytes, new: bytes | None, find: Find) -> None:
        """Check that no foreign key needs a tuple that is removed, or replaced by `new`.

        Raises:
            ClientError: FOREIGN_KEY_INTEGRITY.
        """
        for referrer in space.referrers:
            self._check_referrer(space, referrer, old, new, find)

    def _check_referrer(self, space: Space, referrer: Referrer, old: bytes, new: bytes | None, find: Find) -> None:
        key, other = referrer.key, referrer.space

        def wrong(text: str) -> BoxError:
            return _failure(ErrorCode.FOREIGN_KEY_INTEGRITY, key.name, text)

        there = [_field_no(space.definition, name) for _, name in key.links]
        if None in there:
            raise wrong("wrong foreign field name")
        before = unpack(old)
        if new is not None:
            index = _index_of(space, there, is_unique=True)
            if index is not None and (index.definition.iid == 0 or index.key_of(before) == index.key_of(unpack(new))):
                return
        own = [referrer.number if name is None else _field_no(other.definition, name) for name, _ in key.links]
        index = None if None in own else _index_of(other, own, is_unique=False)
        if index is None:
            raise wrong("index was not found")
        found = [before[number] if number is not None and number < len(before) else None for number in there]
        if any(one is None for one in found):
            return
        try:
            referring = find(other, index, _in_order(index, own, found))
        except BoxError as error:
            raise (wrong("wrong key type") if error.code == ErrorCode.KEY_PART_TYPE else error) from None
        if referring is not None:
            raise wrong("tuple is referenced")


def _failure(code: int, name: str, *args: str, field_id: int | None = None) -> BoxError:
    """Return an error with the members that Tarantool gives it besides code and text."""
    error = client_error(code, name, *args)
    error.fields = {"name": name}
    if field_id is not None:
        error.fields |= {"field_path": args[0], "field_id": field_id}
    return error


def _field_no(definition: SpaceDef, name: FieldName | None) -> int | None:
    """Return the number of a field, from 0 on, or None if there is none of this name."""
    if not isinstance(name, str):
        return name
    return next((number for number, item in enumerate(definition.fields) if item.name == name), None)


def _index_of(space: Space, numbers: list[int | None], *, is_unique: bool) -> Index | None:
    """Return the first index with exactly these fields, in any order."""
    for index in space.indexes.values():
        parts = index.definition.parts
        if index.definition.opts.get("func") or index.key_def.is_multikey or len(parts) != len(numbers):
            continue
        if (index.is_unique or not is_unique) and {part.fieldno for part in parts} == set(numbers):
            return index
    return None


def _in_order(index: Index, numbers: list[int | None], values: list[Any]) -> list[Any]:
    """Return the values of these fields in the order of the parts of an index."""
    place = dict(zip(numbers, values, strict=True))
    return [place[part.fieldno] for part in index.definition.parts]


def _values(fields: list[Any], numbers: list[int | None]) -> list[Any] | None:
    """Return the values of some fields; None if some are missing, and those that are there are not all nil."""
    present = [fields[number] for number in numbers if number is not None and number < len(fields)]
    if len(present) < len(numbers) and any(one is not None for one in present):
        return None
    return present if len(present) == len(numbers) else [None] * len(numbers)
