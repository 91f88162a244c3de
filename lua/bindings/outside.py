"""Refuses calls of Lua's own libraries that would leave a simulated machine."""

from __future__ import annotations

from lua.bindings.binding import Binding, Outcome, guarded, text


class OutsideBinding(Binding):
    """Python half of `internal.program_library` and `internal.file_library` on a simulated machine."""

    @guarded("refuse")
    def refuse(self, feature: bytes) -> Outcome:
        """Return the error of a call that would leave the machine."""
        self.runtime.machine.require_outside(text(feature))
        return None
