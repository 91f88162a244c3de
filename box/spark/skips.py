"""Broken blocks that a lenient reader passes over: a line for each on standard error, and their number."""

from __future__ import annotations

import os
import sys


def report_skip(path: str, position: int, size: int, reason: str) -> None:
    """One line on standard error, which Spark keeps in the log of the executor. `size` is 0 where only the rows of a
    block are broken."""
    extent = f"{size} bytes" if size else "the block"
    print(f"box: {os.path.basename(path)}: {extent} at {position} skipped: {reason}", file=sys.stderr)


class SkipCount:
    """Reports what is passed over, and counts it: `blocks`, or stretches of a file where no block was found."""

    def __init__(self) -> None:
        self.blocks = 0

    def __call__(self, path: str, position: int, size: int, reason: str) -> None:
        self.blocks += 1
        report_skip(path, position, size, reason)

    @property
    def text(self) -> str:
        """`, 2 broken blocks skipped`; empty where there were none."""
        return f", {self.blocks} broken {'block' if self.blocks == 1 else 'blocks'} skipped" if self.blocks else ""

    def report(self, path: str) -> None:
        """One line with the number for a part of a file, where there is anything to tell."""
        if self.blocks:
            print(f"box: {os.path.basename(path)}{self.text} in one part", file=sys.stderr)
