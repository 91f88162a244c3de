"""Changing a space: from the definition before to the one after, with the way back.

Everything that may fail happens before the first change: the new tuple format, the check of stored tuples
against it, the build of new indexes. Then the layout is exchanged in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from box.data.format import TupleFormat
from box.data.keydef import KeyDef
from box.data.show import tuple_str
from box.errors import ErrorCode, client_error, unsupported
from box.index import Index, IndexDef, create_index
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.options import check_collation
from box.schema.schema import Schema
from box.schema.space import Layout, Space, SpaceDef
from box.schema.sysview import create_view_index, row_filter


def make_format(schema: Schema, definition: SpaceDef, index_defs: Iterable[IndexDef]) -> TupleFormat:
    """The format of a space's tuples. WRONG_COLLATION_OPTIONS, and what `TupleFormat` raises."""
    for number, field in enumerate(definition.fields, 1):
        check_collation(field.collation_id, schema.collations, ErrorCode.WRONG_COLLATION_OPTIONS, number)
    key_defs = [KeyDef(index_def.parts) for index_def in index_defs]
    return TupleFormat(definition.fields, key_defs, definition.field_count)


def make_space(schema: Schema, definition: SpaceDef) -> Space:
    """A new space without indexes, not in the dictionary yet."""
    space = Space(Layout(definition, make_format(schema, definition, ()), {}))
    if definition.engine == "sysview":
        space.row_filter = row_filter(schema, definition.id)
    elif definition.engine == "service":
        space.service = schema.session_settings
    return space


def make_index(schema: Schema, space: Space, definition: IndexDef, primary: KeyDef | None) -> Index:
    """An empty index of the space's engine."""
    if space.engine == "sysview":
        return create_view_index(schema, space, definition)
    if space.engine == "blackhole":
        raise unsupported("Blackhole", "indexes")
    if space.engine == "service" and definition.iid != 0:
        raise unsupported("_session_settings space", "create_index()")
    return create_index(definition, primary, space_name=space.name, engine=space.engine)


def exchange(schema: Schema, stmt: DdlStatement, space: Space, layout: Layout, *, is_visible: bool = True) -> None:
    """Install a layout; the statement's rollback installs the present one again.

    `is_visible`: clients see the difference, so the schema version grows.
    """
    before = space.layout

    def install(target: Layout) -> None:
        old_name = space.name
        space.install(target)
        schema.rename_space(space, old_name)
        schema.version += is_visible
        schema.space_changed(space)

    install(layout)
    stmt.on_rollback.append(lambda: install(before))
    gone = [index for index in before.indexes.values() if index not in layout.indexes.values()]
    added = [index for index in layout.indexes.values() if index not in before.indexes.values()]
    if gone:
        stmt.on_commit.append(lambda: _release(schema, gone))
    if added:
        stmt.on_rollback.append(lambda: _release(schema, added))


def _release(schema: Schema, indexes: list[Index]) -> None:
    for index in indexes:
        schema.release(index)


def check_format(schema: Schema, txn: DdlTransaction, space: Space, new_format: TupleFormat) -> None:
    """Check stored tuples against a format that may be stricter than the present one."""
    if new_format.can_store(space.format) or is_empty(space):
        return
    txn.check_single_statement("space format check")
    for raw in stored_tuples(schema, space):
        new_format.validate(raw)


def build_index(schema: Schema, space: Space, index: Index, new_format: TupleFormat) -> None:
    """Fill a new index with the space's tuples. TUPLE_FOUND, INJECTION, and what the format's check raises."""
    if schema.errinj.values["ERRINJ_BUILD_INDEX"] == index.definition.iid and not is_empty(space):
        raise client_error(ErrorCode.INJECTION, "build index")
    keyed = ((index.key_of(new_format.validate(raw)), raw) for raw in stored_tuples(schema, space))
    pairs = [pair for pair in keyed if pair[0] is not None]  # None: the tuple does not belong to the index
    if not pairs:
        return  # also where there is nothing to fill: in a view
    pairs.sort(key=_key_of_pair)
    index.load_sorted(pairs)
    if len(index) == len(pairs):
        return
    for (key, old), (next_key, new) in pairwise(pairs):
        if key == next_key:
            definition = index.definition
            raise client_error(ErrorCode.TUPLE_FOUND, definition.name, space.name, tuple_str(old), tuple_str(new))


def _key_of_pair(pair: tuple[Any, bytes]) -> Any:
    return pair[0]


def is_empty(space: Space) -> bool:
    """True if the space holds no tuples."""
    return not space.is_plain or space.primary is None or len(space.primary) == 0


def stored_tuples(schema: Schema, space: Space) -> Iterator[bytes]:
    """The tuples in the order of the primary index, as the transaction manager says they are."""
    if space.is_plain and space.primary is not None:
        yield from schema.read_tuples(space)
