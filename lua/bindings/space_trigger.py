"""The triggers of Lua on a space, for the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from box.schema.space import NOTHING

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from lua.runtime import Runtime


class LuaSpaceTrigger:
    """All Lua triggers of one kind on one space, as a single trigger of the core."""

    def __init__(self, runtime: Runtime, kind: str, space: Space) -> None:
        self._runtime = runtime
        self._dispatcher = runtime.handle_of(f"box.run_{kind}")
        self._space = space

    async def call(self, ctx: Context, old: bytes | None, new: bytes | None, space_name: str, op: str) -> Any:
        """Run the triggers for one change. A result of `True` from Lua stands for the new tuple it was given, `False`
        for the old one.
        """
        name = space_name.encode("utf-8", "surrogateescape")
        space_id, op_name = self._space.id, op.encode()
        outcome = self._runtime.start_inside(self._dispatcher, space_id, old, new, name, op_name, ctx=ctx)
        values = outcome if isinstance(outcome, tuple) else await outcome
        result = values[0] if values else None
        if result is False:
            return old
        return NOTHING if result is True else result
