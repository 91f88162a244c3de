"""The log of a simulated node, as far as checks need it."""

from __future__ import annotations

from collections import deque

from box.log import Level

_KEPT_LINES = 300
"""The number of lines that a report of a failed run may show."""
_LET_GO = "deactivated WAL consumer replica "
"""The beginning of the line that reports the loss of files which a replica still needed."""


class LogLines:
    """Keeps the last lines of a node's log."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.alarms: list[str] = []
        """Lines that no fault explains."""
        self.let_go: set[str] = set()
        """UUIDs of replicas that lack rows deleted here because the disk was full."""
        self.is_deaf = False

    def take(self, level: Level, text: str) -> None:
        """Add a line."""
        if not self.is_deaf:
            self.lines.append(text)
            if "unexpected error" in text:
                self.alarms.append(text)
            if text.startswith(_LET_GO):
                self.let_go.add(text.removeprefix(_LET_GO).split()[0])
