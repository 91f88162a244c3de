"""The reasons for which a connection of the binary server stops its input.

Input is neither read nor served while one of them applies:

```
OUTPUT   the client does not read its replies
LARGE    a large reply is being sent
LIMIT    more than `net_msg_max` requests of the whole server wait
CALLS    as many functions of this client run as may bring results (`calling.py`)
BUSY     the greeting waits for a trigger, or replication has the connection
PACE     requests gather for a moment (`pace.py`)
TURN     other connections have their turn
```
"""

from __future__ import annotations

from typing import Final


class Stop:
    """The reasons of the table in the module, to be combined with `|`.

    They are plain numbers: they are tested for every packet, and with an `enum.Flag` that would take longer than
    reading the packet's header.
    """

    OUTPUT: Final = 1
    LIMIT: Final = 2
    BUSY: Final = 4
    PACE: Final = 8
    TURN: Final = 16
    LARGE: Final = 32
    CALLS: Final = 64
