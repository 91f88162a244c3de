"""Reasons why a connection of the binary server does not read.

Input stops, neither read nor served, while

```
OUTPUT   the client does not read its replies
LARGE    a large reply is on its way
LIMIT    more than `net_msg_max` requests of the whole server are waiting
CALLS    as many functions of this client run as may bring results (`calling.py`)
BUSY     the greeting waits for a trigger, or replication has the connection
PACE     requests gather for a moment (`pace.py`)
TURN     others have their turn
```
"""

from __future__ import annotations

from enum import IntFlag


class Stop(IntFlag):
    """See the module's text."""

    OUTPUT = 1
    LIMIT = 2
    BUSY = 4
    PACE = 8
    TURN = 16
    LARGE = 32
    CALLS = 64
