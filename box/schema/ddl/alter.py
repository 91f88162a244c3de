"""Changes a space from one definition to the next, with the way back.

Everything that may fail happens before the first change: the new tuple format, the check of stored tuples against it,
the build of new indexes (`box.schema.ddl.build`). Then the layout is exchanged in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Final, NamedTuple

from box.data.format import FieldDef, TupleFormat
from box.data.keydef import KeyDef, PartDef, key_def_of
from box.errors import ErrorCode
from box.index import Index, IndexDef, IteratorType
from box.index.functional import DisabledIndex
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.options import check_collation
from box.schema.schema import Schema
from box.schema.space import Layout, Space, SpaceDef

_KEPT_FORMATS: Final = 256
"""The number of cached formats. A start makes some hundreds, because its spaces get their indexes one by one."""


def make_format(schema: Schema, definition: SpaceDef, index_defs: Iterable[IndexDef]) -> TupleFormat:
    """Make the format of a space's tuples.

    Raises:
        ClientError: WRONG_COLLATION_OPTIONS.
        BoxError: see `TupleFormat`.
    """
    for number, field in enumerate(definition.fields, 1):
        if field.collation_id is not None:
            check_collation(field.collation_id, schema.collations, ErrorCode.WRONG_COLLATION_OPTIONS, number)
    # The parts of functional indexes refer to the function's result, not to the tuple.
    parts = tuple([index_def.parts for index_def in index_defs if not index_def.opts.get("func")])
    # All starts share the decoded definitions, so that their identities are the key; comparing their content takes
    # long.
    key = (definition.field_count, id(definition.fields), *map(id, parts))
    known = _formats.get(key)
    if known is None:
        if len(_formats) >= _KEPT_FORMATS:
            _formats.clear()
        new_format = _format_of(definition.fields, parts, definition.field_count)
        known = _formats[key] = _KnownFormat(definition.fields, parts, new_format)
    return known.format


class _KnownFormat(NamedTuple):
    """A cached format. It holds the objects whose identities are its key, so that their identities are not reused."""

    fields: tuple[FieldDef, ...]
    parts: tuple[tuple[PartDef, ...], ...]
    format: TupleFormat


_formats: Final[dict[tuple[int, ...], _KnownFormat]] = {}


@lru_cache(_KEPT_FORMATS)
def _format_of(fields: tuple[FieldDef, ...], parts: tuple[tuple[PartDef, ...], ...], field_count: int) -> TupleFormat:
    return TupleFormat(fields, [key_def_of(one) for one in parts], field_count)


def make_space(schema: Schema, definition: SpaceDef) -> Space:
    """Make a space without indexes, which is not in the dictionary yet."""
    engine = schema.engine(definition.engine)
    space = Space(Layout(definition, make_format(schema, definition, ()), {}), engine)
    engine.prepare_space(schema, space)
    return space


def make_again(schema: Schema, space: Space, index: Index, primary: KeyDef | None) -> Index:
    """Make an empty index to replace one with the same definition. A functional index without its function stays
    without it.
    """
    if isinstance(index, DisabledIndex):
        return DisabledIndex(index.definition, primary, space_name=space.name, engine=space.engine.name)
    return space.engine.make_index(schema, space, index.definition, primary)


def exchange(schema: Schema, stmt: DdlStatement, space: Space, layout: Layout, *, is_visible: bool = True) -> None:
    """Install a layout; the statement's rollback installs the current one again.

    As in Tarantool, triggers that `run_triggers(false)` has switched off run again.

    With `is_visible` the schema version grows, because clients see the difference.
    """
    before = space.layout

    def install(target: Layout) -> None:
        old_name, former, rules = space.name, space.primary, space.rules
        space.install(target)
        schema.link_references(space, rules)
        if space.primary is not former:
            space.engine.exchanged(schema, former, space.primary)
        schema.rename_space(space, old_name)
        if is_visible:
            schema.new_version()
        schema.space_changed(space)

    install(layout)
    stmt.on_rollback.append(FormerLayout(space, before, install))
    if not space.run_triggers:
        space.run_triggers = True
        stmt.on_rollback.append(partial(setattr, space, "run_triggers", False))
    gone = [index for index in before.indexes.values() if index not in layout.indexes.values()]
    added = [index for index in layout.indexes.values() if index not in before.indexes.values()]
    if gone:
        stmt.on_commit.append(lambda: _release(schema, gone))
    if added:
        stmt.on_rollback.append(lambda: _release(schema, added))


class FormerLayout:
    """A rollback hook that installs a space's former layout, whose indexes are `indexes`."""

    __slots__ = ("_install", "_layout", "space")

    def __init__(self, space: Space, layout: Layout, install: Callable[[Layout], None]) -> None:
        self.space = space
        self._layout = layout
        self._install = install

    @property
    def indexes(self) -> dict[int, Index]:
        return self._layout.indexes

    def __call__(self) -> None:
        self._install(self._layout)


def _release(schema: Schema, indexes: list[Index]) -> None:
    for index in indexes:
        schema.release(index)


def needs_check(txn: DdlTransaction, space: Space, new_format: TupleFormat, *, adds_rules: bool = False) -> bool:
    """Return whether stored tuples must be checked, because a format may be stricter or has new rules.

    Raises:
        TransactionError: MULTISTATEMENT_TRANSACTION, a check is needed in a transaction with other statements.
    """
    if (new_format.can_store(space.format) and not adds_rules) or not has_tuples(space):
        return False
    txn.check_single_statement("space format check")
    return True


def is_empty(space: Space) -> bool:
    """Return whether the indexes of the space have no entries."""
    return not space.engine.keeps_tuples or space.primary is None or len(space.primary) == 0


def has_tuples(space: Space) -> bool:
    """Return whether a change that follows all prepared ones may find tuples in the space.

    With versions of tuples an entry stays in the indexes until the log has the delete of its tuple. A replica meets
    changes there that another instance has made afterwards.
    """
    if is_empty(space):
        return False
    assert space.primary is not None
    entries = space.primary.scan(IteratorType.ALL, [])
    return any(type(entry) is bytes or not entry.is_vacant for entry in entries)
