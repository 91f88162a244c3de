"""The engine `service`: `_session_settings`, whose rows are the settings of the reader's session.

No index stores anything: rows are made when they are read (`box.schema.session_settings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from box.data.update import apply_update
from box.errors import unsupported
from box.index import Index, IndexDef, create_index
from box.schema.ids import SpaceId
from box.schema.session_settings import SessionSettings
from box.schema.storage_engine import Engine, TupleChange
from box.wire.change import UPDATE, Request
from box.wire.constants import RequestType

if TYPE_CHECKING:
    from box.data.keydef import KeyDef
    from box.schema.schema import Schema
    from box.schema.space import Space, SpaceDef
    from box.session import Context


class SessionValuesEngine(Engine):
    """An engine for one space of the system, which can be read and updated."""

    name: ClassVar[str] = "service"

    def __init__(self) -> None:
        self._settings = SessionSettings()

    def check_space(self, definition: SpaceDef) -> None:
        """Refuse every space but `_session_settings`."""
        if definition.id != SpaceId.SESSION_SETTINGS:
            raise unsupported("Tarantool", "non-system space with 'service' engine.")

    def make_index(self, schema: Schema, space: Space, definition: IndexDef, primary: KeyDef | None) -> Index:
        """Make the primary index, which stays empty."""
        if definition.iid != 0:
            raise unsupported("_session_settings space", "create_index()")
        return create_index(definition, primary, space_name=space.name, engine=self.name)

    def change(self, ctx: Context, space: Space, change: TupleChange, request: Request) -> bytes | None:
        """Update a setting. Raises UNSUPPORTED for other changes, or the error of the setting."""
        if request.type != UPDATE:
            raise self._settings.refuse(RequestType(request.type).name.lower())
        old = self._settings.get(ctx.session, request.key)
        if old is None:
            return None
        new = apply_update(old, request.ops, fmt=space.format, index_base=request.index_base)
        return self._settings.update(ctx.session, request.key, new)

    def find(self, ctx: Context, space: Space, index: Index, key: list[Any]) -> bytes | None:
        """Return the row of one setting."""
        return self._settings.get(ctx.session, key)

    def rows(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        """Return the rows of settings in the order of names."""
        return iter(self._settings.select(ctx.session, iterator, key))
