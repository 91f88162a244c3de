"""The machine as Lua modules reach it. The operating system's by default; a simulation has one of its own.

```
files      fio, xlog            lua/machine/files.py
sockets    socket               lua/machine/sockets.py
clocks     clock, os            lua/machine/clocks.py
identity   digest, box.info     random bytes and the process's number: lua/machine/identity.py
```

Other programs (`popen`, `os.execute`, `io.popen`) and web servers (`http.client`) are there or not: see
`Machine.require_outside`.

Lua's own `io` library and `ffi.C` are those of the process, whatever the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from box.errors import BoxError, ErrorCode
from lua.machine.clocks import Clocks, SystemClocks
from lua.machine.files import Files, SystemFiles
from lua.machine.identity import Identity, SystemIdentity
from lua.machine.sockets import Sockets, SystemSockets

__all__ = [
    "Clocks",
    "Files",
    "Identity",
    "Machine",
    "Sockets",
    "SystemClocks",
    "SystemFiles",
    "SystemIdentity",
    "SystemSockets",
]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The parts that one process has."""

    files: Files = field(default_factory=SystemFiles)
    sockets: Sockets = field(default_factory=SystemSockets)
    clocks: Clocks = field(default_factory=SystemClocks)
    identity: Identity = field(default_factory=SystemIdentity)
    has_outside: bool = True
    """Whether it has other programs, and a network with web servers."""

    def require_outside(self, feature: str) -> None:
        """UNSUPPORTED for a call that needs them, where they are not."""
        if not self.has_outside:
            raise BoxError(ErrorCode.UNSUPPORTED, f"{feature} is not supported in a simulation")
