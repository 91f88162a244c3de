"""Views of system spaces: the same tuples, limited to those that the reader may see.

A view's index looks up the source space's index at every call. It does not filter, because an index does not know the
reader: readers call `space.row_filter(credentials, tuple)` for each tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from box.data.keydef import SortKey
from box.errors import ErrorCode, client_error
from box.index import Index, IndexDef
from box.index.base import Cursor, Entry
from box.schema.access import Credentials, Privilege
from box.schema.fields import Fields
from box.schema.ids import SpaceId, UserId
from box.schema.schema import Schema
from box.schema.space import Space

RowFilter = Callable[[Credentials, bytes], bool]

_SOURCES: dict[int, SpaceId] = {
    SpaceId.VSPACE: SpaceId.SPACE,
    SpaceId.VINDEX: SpaceId.INDEX,
    SpaceId.VUSER: SpaceId.USER,
    SpaceId.VFUNC: SpaceId.FUNC,
    SpaceId.VPRIV: SpaceId.PRIV,
    SpaceId.VSEQUENCE: SpaceId.SEQUENCE,
    SpaceId.VCOLLATION: SpaceId.COLLATION,
    SpaceId.VSPACE_SEQUENCE: SpaceId.SPACE_SEQUENCE,
}
_SEE = Privilege.R | Privilege.W | Privilege.D | Privilege.A
_SEE_OR_RUN = _SEE | Privilege.X


class ViewIndex(Index):
    """An index of a view; `source` is the index of the source space."""

    def __init__(self, schema: Schema, space: Space, definition: IndexDef) -> None:
        super().__init__(definition, space_name=space.name, engine=space.engine.name)
        self._schema = schema
        self._source_space = _SOURCES[space.id]
        self.find = self._find
        self.key_of = self._key_of

    @property
    def source(self) -> Index:
        """The index of the source space with the same id. Raises NO_SUCH_INDEX_ID."""
        return self._schema.space(self._source_space).index(self.definition.iid)

    def _find(self, sort_key: SortKey) -> Entry | None:
        return self.source.find(sort_key)

    def _key_of(self, fields: list[Any]) -> SortKey:
        return self.source.key_of(fields)

    def get(self, values: list[Any]) -> Entry | None:
        """Return an entry of the source; see `Index.get`."""
        return self.source.get(values)

    def cursor(self, iterator: int, values: list[Any]) -> Cursor:
        """Return a cursor over the source; see `Index.cursor`."""
        return self.source.cursor(iterator, values)

    def values_list(self) -> list[Entry]:
        """Return all entries of the source; see `Index.values_list`."""
        return self.source.values_list()

    def bsize(self) -> int:
        """Return 0: a view takes no memory."""
        return 0

    def __repr__(self) -> str:
        return f"<{self.definition.type} index '{self.definition.name}' of '{self.space_name}', a view>"

    def __len__(self) -> int:
        raise self.unsupported_feature("size()")

    def random(self, seed: int) -> Entry | None:
        """Raise an error, because the view does not know its own size."""
        raise self.unsupported_feature("random()")

    def count(self, iterator: int, values: list[Any]) -> int:
        """Count the entries of the source; a reader counts the visible ones by a scan."""
        return self.source.count(iterator, values)

    def min(self, values: list[Any]) -> Entry | None:
        """Return the least entry of the source, visible or not."""
        return self.source.min(values)

    def max(self, values: list[Any]) -> Entry | None:
        """Return the greatest entry of the source, visible or not."""
        return self.source.max(values)

    def put(self, sort_key: SortKey, entry: Entry) -> None:
        """Raise an error, because a view is read-only."""
        raise client_error(ErrorCode.VIEW_IS_RO, self.space_name)

    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        """Raise an error, because a view is read-only."""
        raise client_error(ErrorCode.VIEW_IS_RO, self.space_name)

    def remove(self, sort_key: SortKey) -> None:
        """Raise an error, because a view is read-only."""
        raise client_error(ErrorCode.VIEW_IS_RO, self.space_name)

    def clear(self) -> None:
        """Raise an error, because a view is read-only."""
        raise client_error(ErrorCode.VIEW_IS_RO, self.space_name)


def create_view_index(schema: Schema, space: Space, definition: IndexDef) -> ViewIndex:
    """Make an index of a view. Raises MODIFY_INDEX for a view without a source."""
    if space.id not in _SOURCES:
        text = "unknown space for system view"
        raise client_error(ErrorCode.MODIFY_INDEX, definition.name, space.name, text)
    return ViewIndex(schema, space, definition)


def row_filter(schema: Schema, space_id: int) -> RowFilter:
    """Return a function that tells whether a reader may see a tuple of the view."""
    source = _SOURCES.get(space_id)
    if source is None or source == SpaceId.COLLATION:
        return lambda credentials, raw: True
    filters: dict[SpaceId, RowFilter] = {
        SpaceId.SPACE: lambda credentials, raw: _sees_space(schema, credentials, raw),
        SpaceId.INDEX: lambda credentials, raw: _sees_space(schema, credentials, raw),
        SpaceId.FUNC: lambda credentials, raw: _sees_function(schema, credentials, raw),
        SpaceId.SEQUENCE: lambda credentials, raw: _sees_sequence(schema, credentials, Fields(raw).u32(0)),
        SpaceId.SPACE_SEQUENCE: lambda credentials, raw: _sees_sequence(schema, credentials, Fields(raw).u32(1)),
        SpaceId.USER: _sees_user,
        SpaceId.PRIV: _sees_grant,
    }
    row_visible = filters[source]
    on_universe = _SEE_OR_RUN if source in (SpaceId.FUNC, SpaceId.SEQUENCE, SpaceId.SPACE_SEQUENCE) else _SEE

    def is_visible(credentials: Credentials, raw: bytes) -> bool:
        if credentials.universal & on_universe or credentials.on("space", int(source)) & Privilege.R:
            return True
        return row_visible(credentials, raw)

    return is_visible


def _sees_space(schema: Schema, credentials: Credentials, raw: bytes) -> bool:
    space = schema.spaces.get(Fields(raw).u32(0))
    if credentials.on("space", None) & _SEE:
        return True
    return space is not None and (space.owner == credentials.uid or bool(credentials.on("space", space.id) & _SEE))


def _sees_function(schema: Schema, credentials: Credentials, raw: bytes) -> bool:
    function = schema.functions.get(Fields(raw).u32(0))
    if credentials.on("function", None) & _SEE_OR_RUN:
        return True
    return function is not None and (
        function.owner == credentials.uid or bool(credentials.on("function", function.id) & _SEE_OR_RUN)
    )


def _sees_sequence(schema: Schema, credentials: Credentials, sequence_id: int) -> bool:
    sequence = schema.sequences.get(sequence_id)
    if credentials.on("sequence", None) & _SEE_OR_RUN:
        return True
    return sequence is not None and (
        sequence.owner == credentials.uid or bool(credentials.on("sequence", sequence.id) & _SEE_OR_RUN)
    )


def _sees_user(credentials: Credentials, raw: bytes) -> bool:
    fields = Fields(raw)
    uid = fields.u32(0)
    return credentials.uid in (uid, fields.u32(1)) or uid == UserId.PUBLIC


def _sees_grant(credentials: Credentials, raw: bytes) -> bool:
    fields = Fields(raw)
    return credentials.uid in (fields.u32(0), fields.u32(1))
