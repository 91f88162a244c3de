"""An index of positions in the log, so that a reader begins near its first row and not at the start of a file.

For each file it has the vclock at some of the blocks, one for each `STEP` bytes. The writer notes them as it writes;
for an older file the first reader that reads it does. The vclock noted for a block includes all rows before it, so a
reader that has that vclock may start there. Component 0 does not count, because local rows never leave the instance.
"""

from __future__ import annotations

from typing import Final

from box.wire.vclock import VClock

STEP: Final = 256 * 1024
"""The least distance between two noted blocks of a file, in bytes."""
_MAX_FILES: Final = 256
"""The number of files whose notes are kept; those of the oldest files are dropped first."""


class BlockIndex:
    """The noted blocks of each file, by its signature.

    The writer's thread and readers' threads use it at the same time. That is safe because a list only grows, by whole
    notes.
    """

    __slots__ = ("_files", "_step")

    def __init__(self, step: int = STEP) -> None:
        self._files: dict[int, list[tuple[int, VClock]]] = {}
        self._step = step

    def note(self, signature: int, offset: int, vclock: VClock) -> int:
        """Note that the block at `offset` begins after `vclock`, which must not change afterwards.

        Notes too close to the previous one are dropped, and so are those of a second reader of a file. Returns the
        offset from which on the next note is kept.
        """
        notes = self._files.get(signature)
        if notes is None:
            notes = self._begin(signature)
        if not notes or offset >= notes[-1][0] + self._step:
            notes.append((offset, vclock))
        return notes[-1][0] + self._step

    def _begin(self, signature: int) -> list[tuple[int, VClock]]:
        files = self._files
        notes = files.setdefault(signature, [])
        while len(files) > _MAX_FILES:
            files.pop(min(files), None)
        return notes

    def wants(self, signature: int, offset: int) -> bool:
        """True if a note of this block would be kept."""
        notes = self._files.get(signature)
        return not notes or offset >= notes[-1][0] + self._step

    def find(self, signature: int, vclock: VClock) -> int | None:
        """Return the last noted block of a file that no row later than `vclock` precedes.

        None means: read from the start.
        """
        notes = self._files.get(signature)
        if not notes:
            return None
        low, high = 0, len(notes)
        while low < high:
            middle = (low + high) // 2
            if vclock.covers(notes[middle][1], ignore_zero=True):
                low = middle + 1
            else:
                high = middle
        return notes[low - 1][0] if low else None

    def forget_before(self, signature: int) -> None:
        """Forget all files with a smaller signature, which are gone."""
        for known in [known for known in self._files if known < signature]:
            self._files.pop(known, None)
