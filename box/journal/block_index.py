"""The places of vclocks in the log, so that a reader begins near its first row and not at the start of a file.

For each file the vclock at some of its blocks, one in `STEP` bytes. The writer notes them while it writes; of an older
file the first reader that goes through it does. Everything before a noted block is in the vclock noted, so that whoever
has that much need not read it. Component 0 does not count: local rows never leave the instance.
"""

from __future__ import annotations

from typing import Final

from box.wire.vclock import VClock

STEP: Final = 256 * 1024
"""Bytes between two notes."""
_MAX_FILES: Final = 256


class BlockIndex:
    """Notes by the signature of the file. The writer's thread and readers' threads use it at the same time: a list only
    grows, by whole notes."""

    __slots__ = ("_files", "_step")

    def __init__(self, step: int = STEP) -> None:
        self._files: dict[int, list[tuple[int, VClock]]] = {}
        self._step = step

    def note(self, signature: int, offset: int, vclock: VClock) -> int:
        """The block at `offset` begins after `vclock`, which nobody changes any more.

        Notes that are too close to the one before are dropped, and so are those of a second reader of a file. Gives the
        offset from which on the next one is kept.
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
        """Whether a note of this block would be kept."""
        notes = self._files.get(signature)
        return not notes or offset >= notes[-1][0] + self._step

    def find(self, signature: int, vclock: VClock) -> int | None:
        """The last noted block of a file with nothing later than `vclock` before it; None: read from the start."""
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
        """Files with a smaller signature are gone."""
        for known in [known for known in self._files if known < signature]:
            self._files.pop(known, None)
