"""The engine `blackhole`: it keeps no tuples, but their changes go to the log and to replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from box.errors import unsupported
from box.schema.storage_engine import Engine, TupleChange
from box.txn.rule_writes import validated
from box.wire.change import INSERT, REPLACE, Request
from box.wire.constants import RequestType

if TYPE_CHECKING:
    from box.data.keydef import KeyDef
    from box.index import Index, IndexDef
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.session import Context


class BlackholeEngine(Engine):
    """An engine without indexes."""

    name: ClassVar[str] = "blackhole"

    def make_index(self, schema: Schema, space: Space, definition: IndexDef, primary: KeyDef | None) -> Index:
        """Refuse to make an index. Raises UNSUPPORTED."""
        raise unsupported("Blackhole", "indexes")

    def change(self, ctx: Context, space: Space, change: TupleChange, request: Request) -> bytes | None:
        """Check the tuple of an INSERT or REPLACE; raises UNSUPPORTED for others."""
        if request.type not in (INSERT, REPLACE):
            raise unsupported("Blackhole", f"{RequestType(request.type).name.lower()}()")
        validated(ctx, space, request, request.tuple)
        change.new = request.tuple
        return request.tuple

    def rows(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        """Return an empty iterator."""
        return iter(())
