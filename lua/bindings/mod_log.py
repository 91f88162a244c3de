"""`log`: messages of Lua code in the node's log."""

from __future__ import annotations

from lua.bindings.binding import Binding, exported


class LogBinding(Binding):
    """Python half of lua/modules/log.lua."""

    @exported("log_level")
    def level(self) -> int:
        """The number of the level up to which messages are written."""
        return self.node.log.level
