"""Free ports of 127.0.0.1 for nodes that will listen a moment later."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

_LEAST: Final = 10_000
_USUAL_END: Final = 32_768
"""Where the ports for connections begin if the operating system does not tell."""
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def _end() -> int:
    """Return the first of the ports that the operating system gives to connections and to who asks for any port."""
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_END


def free_ports(count: int) -> list[int]:
    """Return different ports that are free now.

    They are drawn below those that the operating system gives away itself, so that no connection and no other server
    takes one before the caller listens on it.

    Raises:
        OSError: there are not enough free ports.
    """
    drawn = random.SystemRandom().sample(range(_LEAST, max(_end(), _LEAST + 1000)), 1000)
    ports: list[int] = []
    with ExitStack() as probes:  # all are held until the last is found
        for port in drawn:
            if len(ports) == count:
                return ports
            try:
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
    raise OSError("no free port on 127.0.0.1")
