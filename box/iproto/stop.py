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

from typing import Final


class Stop:
    """See the module's text. Plain numbers, to be put together with `|`: they are looked at for every packet, which
    with an `enum.Flag` takes longer than to read its header."""

    OUTPUT: Final = 1
    LIMIT: Final = 2
    BUSY: Final = 4
    PACE: Final = 8
    TURN: Final = 16
    LARGE: Final = 32
    CALLS: Final = 64
