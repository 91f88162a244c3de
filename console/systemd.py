"""Tells the service manager what becomes of this process: systemd's protocol of `NOTIFY_SOCKET`.

```
STATUS=loading, running, ...     the status of the instance has changed
READY=1                          the script has ended, and the program stays up
STATUS=Failed to startup: text   the script has failed
```

Each is a datagram to a UNIX socket; `@name` is an abstract one. Source: datagrams of a running Tarantool.
"""

from __future__ import annotations

import os

from console import streams

_LONGEST = 107
"""The bytes of a UNIX socket's path, without the final zero."""


class Service:
    """The service manager at `address`. Without an address no messages are sent."""

    def __init__(self, address: str | None) -> None:
        self._address = b""
        if address is None:
            return
        raw = os.fsencode(address)
        if raw[:1] not in (b"/", b"@") or len(raw) < 2:
            streams.complain("systemd: NOTIFY_SOCKET contains bad value")
        elif len(raw) > _LONGEST:
            streams.complain("systemd: NOTIFY_SOCKET is longer than MAX_UNIX_PATH")
        else:
            self._address = b"\0" + raw[1:] if raw.startswith(b"@") else raw

    def ready(self) -> OSError | None:
        """Tell that the program is up. Returns why that failed, if it did, as the other methods do."""
        return self._send("READY=1")

    def status(self, text: str) -> OSError | None:
        """Tell a status of the instance."""
        return self._send(f"STATUS={text}")

    def failed(self, reason: str) -> OSError | None:
        """Tell that the script has failed."""
        return self._send(f"STATUS=Failed to startup: {reason}")

    def _send(self, text: str) -> OSError | None:
        if not self._address:
            return None
        import socket  # most programs have no service manager

        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(text.encode(errors="surrogateescape"), self._address)
        except OSError as error:
            return error
        return None
