"""The log of an embedded node in Python's `logging`, unless the option `log` says where it goes.

```
log_level   FATAL      SYSERROR, ERROR   CRIT, WARN   INFO   VERBOSE, DEBUG
logging     CRITICAL   ERROR             WARNING      INFO   DEBUG
```

The logger is `box` unless the node is given one. What the node's `log_level` leaves out does not come here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from box.log import Level

_LEVELS = {
    Level.FATAL: logging.CRITICAL,
    Level.SYSERROR: logging.ERROR,
    Level.ERROR: logging.ERROR,
    Level.CRIT: logging.WARNING,
    Level.WARN: logging.WARNING,
    Level.INFO: logging.INFO,
    Level.VERBOSE: logging.DEBUG,
    Level.DEBUG: logging.DEBUG,
}


def logger_of_nodes() -> logging.Logger:
    """The logger `box`. It has a handler that does nothing, so that a program without logging prints nothing."""
    logger = logging.getLogger("box")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def forward_to(logger: logging.Logger) -> Callable[[Level, str], None]:
    """A function that gives messages to a logger; for any thread."""

    def forward(level: Level, text: str) -> None:
        logger.log(_LEVELS[level], "%s", text)

    return forward
