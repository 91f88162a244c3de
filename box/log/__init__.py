"""The node's log: one line a message, to a file, a command's input, syslog or standard error.

```
Log.say  ->  a line in Tarantool's format  ->  Sink (where it goes)  ->  Channel (a descriptor that may stand still)
```

Saying something never raises and never blocks for good: what could not be written is counted, and the log itself tells
the count once it can be written again.
"""

from box.log.level import Level, log_level
from box.log.log import BARE, CordLog, Log
from box.log.target import check_log_target

__all__ = ["BARE", "CordLog", "Level", "Log", "check_log_target", "log_level"]
