"""The machine that Lua modules use: the operating system's by default, or one of a simulation.

```
files      fio, xlog            lua/machine/files.py
sockets    socket               lua/machine/sockets.py
clocks     clock, os            lua/machine/clocks.py
identity   digest, box.info     random bytes and the process's number: lua/machine/identity.py
```

Other programs (`popen`, `os.execute`, `io.popen`) and web servers (`http.client`) may be unavailable: see
`Machine.require_outside`.

Lua's own `io` library and `ffi.C` are those of the process, whatever the machine.
"""

from __future__ import annotations

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


class Machine:
    """The files, sockets, clocks and identity of one process: the operating system's where none are given."""

    def __init__(
        self,
        *,
        files: Files | None = None,
        sockets: Sockets | None = None,
        clocks: Clocks | None = None,
        identity: Identity | None = None,
        has_outside: bool = True,
    ) -> None:
        self.files = files or SystemFiles()
        self.sockets = sockets or SystemSockets()
        self.clocks = clocks or SystemClocks()
        self.identity = identity or SystemIdentity()
        self.has_outside = has_outside
        """True if the machine has other programs, and a network with web servers."""

    def require_outside(self, feature: str) -> None:
        """Check that the machine has other programs and web servers.

        Raises:
            BoxError: UNSUPPORTED, in a simulation.
        """
        if not self.has_outside:
            raise BoxError(ErrorCode.UNSUPPORTED, f"{feature} is not supported in a simulation")
