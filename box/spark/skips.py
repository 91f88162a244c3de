"""Reports broken blocks that a lenient reader skips: a line for each on standard error, and their number."""

from __future__ import annotations

import os
import sys


def report_skip(path: str, position: int, size: int, reason: str) -> None:
    """Print one line about skipped bytes on standard error, which Spark keeps in the log of the executor.

    `size` is 0 if only the rows of the block are broken.
    """
    extent = f"{size} bytes" if size else "the block"
    print(f"box: {os.path.basename(path)}: {extent} at {position} skipped: {reason}", file=sys.stderr)


class SkipCount:
    """A callback that reports and counts what is skipped: blocks, or parts of a file in which no block was found."""

    def __init__(self) -> None:
        self.blocks = 0

    def __call__(self, path: str, position: int, size: int, reason: str) -> None:
        self.blocks += 1
        report_skip(path, position, size, reason)

    @property
    def text(self) -> str:
        """A text such as `, 2 broken blocks skipped`, empty if none was skipped."""
        return f", {self.blocks} broken {'block' if self.blocks == 1 else 'blocks'} skipped" if self.blocks else ""

    def report(self, path: str) -> None:
        """Print one line with the number of blocks skipped in a part of a file, if there are any."""
        if self.blocks:
            print(f"box: {os.path.basename(path)}{self.text} in one part", file=sys.stderr)
