"""`uuid`: random identifiers from the instance's random source, for Lua."""

from __future__ import annotations

from lua.bindings.binding import Binding, exported


class UuidBinding(Binding):
    """Python half of lua/modules/uuid.lua."""

    @exported("uuid_random")
    def random(self) -> bytes:
        """Return the 16 bytes of a new version 4 UUID."""
        return self.node.resources.random_uuid().bytes
