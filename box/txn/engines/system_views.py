"""The engine `sysview`: views of system spaces, with the tuples that the reader may see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, cast

from box.errors import ErrorCode, client_error
from box.schema.storage_engine import Engine, TupleChange
from box.schema.sysview import ViewIndex, create_view_index, row_filter
from box.txn.engines.memtx import MemtxEngine

if TYPE_CHECKING:
    from box.data.keydef import KeyDef
    from box.index import Index, IndexDef
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.session import Context
    from box.wire.change import Request


class SystemViewEngine(Engine):
    """An engine for views, which read tuples that another engine keeps."""

    name: ClassVar[str] = "sysview"

    def __init__(self, memtx: MemtxEngine) -> None:
        self._memtx = memtx

    def prepare_space(self, schema: Schema, space: Space) -> None:
        """Give the view its rule about the tuples that a reader may see."""
        space.row_filter = row_filter(schema, space.id)

    def make_index(self, schema: Schema, space: Space, definition: IndexDef, primary: KeyDef | None) -> Index:
        """Make an index of the view. Raises MODIFY_INDEX for a view without a source."""
        return create_view_index(schema, space, definition)

    def change(self, ctx: Context, space: Space, change: TupleChange, request: Request) -> bytes | None:
        """Refuse a change. Raises VIEW_IS_RO."""
        raise client_error(ErrorCode.VIEW_IS_RO, space.name)

    def source(self, index: Index) -> Index | None:
        """Return the index of the system space."""
        return cast(ViewIndex, index).source

    def find(self, ctx: Context, space: Space, index: Index, key: list[Any]) -> bytes | None:
        """Return a tuple of the system space if the reader may see it."""
        found = self._memtx.find(ctx, space, cast(ViewIndex, index).source, key)
        is_visible = space.row_filter
        return found if found is None or is_visible is None or is_visible(ctx.credentials, found) else None

    def rows(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        """Return the tuples of the system space that the reader may see."""
        rows = self._memtx.rows(ctx, space, cast(ViewIndex, index).source, iterator, key)
        is_visible = space.row_filter
        return rows if is_visible is None else (raw for raw in rows if is_visible(ctx.credentials, raw))

    def tuples(self, space: Space) -> Iterable[bytes]:
        """Return all tuples of the system space."""
        return self._memtx.tuples(space)
