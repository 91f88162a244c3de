"""The node's log: one line for each message, written to a file, a command's input, syslog or standard error.

```
Log.say  ->  a line in Tarantool's format  ->  Sink (the destination)  ->  Channel (a descriptor that may block)
```

Logging a message never raises and never blocks for long. Lines that could not be written are counted, and the log
reports their number as soon as it can be written again.
"""

from box.log.level import Level, log_level
from box.log.log import BARE, CordLog, Log, LogMessage
from box.log.target import Destination, check_log_target
from box.log.target import split as split_target

__all__ = [
    "BARE",
    "CordLog",
    "Destination",
    "Level",
    "Log",
    "LogMessage",
    "check_log_target",
    "log_level",
    "split_target",
]
