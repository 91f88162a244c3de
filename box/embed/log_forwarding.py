"""Sends the log of an embedded node to Python's `logging`, unless the option `log` says where it goes.

```
log_level   FATAL      SYSERROR, ERROR   CRIT, WARN   INFO   VERBOSE, DEBUG
logging     CRITICAL   ERROR             WARNING      INFO   DEBUG
```

The logger is `box` unless the node is given one. Messages below the node's `log_level` are not forwarded.
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
    """Return the logger `box`. It has a handler that does nothing, so a program without logging prints nothing."""
    logger = logging.getLogger("box")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def forward_to(logger: logging.Logger) -> Callable[[Level, str], None]:
    """Make a function that passes messages to a logger; it may be called in any thread."""

    def forward(level: Level, text: str) -> None:
        logger.log(_LEVELS[level], "%s", text)

    return forward
