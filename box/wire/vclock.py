"""The vector clock: the lsn of the last row that an instance has of each replica."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgpack

from box.errors import ErrorCode, client_error

VCLOCK_MAX: Final = 32
"""Replica ids are lower than this."""

_MAX_LSN: Final = 2**63 - 1
_TEXT = re.compile(r"[ \t]*\{(?P<items>[^}]*)\}[ \t]*")
_ITEM = re.compile(r"[ \t]*(\d+)[ \t]*:[ \t]*(\d+)\s*")


class VClock(dict[int, int]):
    """A map of replica id to lsn. A missing id counts as lsn 0, and an lsn of 0 is never stored.

    `vclock[7]` is 0 for an unknown replica 7. Change it only through `follow`, `reset` and `merge_*`, which keep that
    rule.
    """

    __slots__ = ()

    def __missing__(self, replica_id: int) -> int:
        return 0

    def follow(self, replica_id: int, lsn: int) -> int:
        """Move one component forward and return its former lsn. An lsn that does not grow is a broken invariant."""
        before = self[replica_id]
        if lsn <= before or not 0 <= replica_id < VCLOCK_MAX:
            raise AssertionError(f"vclock {self} cannot follow {replica_id}: {lsn}")
        self[replica_id] = lsn
        return before

    def reset(self, replica_id: int, lsn: int = 0) -> None:
        """Set one component to any value, even a smaller one."""
        if lsn:
            self[replica_id] = lsn
        else:
            self.pop(replica_id, None)

    @property
    def signature(self) -> int:
        """The sum of all components: it names a log file and orders positions in the log."""
        return sum(self.values())

    def sum(self) -> int:
        """Return the sum of all components, as `signature` does."""
        return sum(self.values())

    def copy(self) -> VClock:
        return VClock(self)

    def without_zero(self) -> VClock:
        """Return a copy without component 0, as other instances see this vclock."""
        clock = VClock(self)
        clock.pop(0, None)
        return clock

    def compare(self, other: Mapping[int, int], *, ignore_zero: bool = False) -> int | None:
        """Return 1 if this is later than `other`, -1 if earlier, 0 if equal, None if they are concurrent."""
        earlier = later = False
        for replica_id in self.keys() | other.keys():
            if replica_id == 0 and ignore_zero:
                continue
            mine, theirs = self[replica_id], other.get(replica_id, 0)
            earlier = earlier or mine < theirs
            later = later or mine > theirs
            if earlier and later:
                return None
        return later - earlier

    def covers(self, other: Mapping[int, int], *, ignore_zero: bool = False) -> bool:
        """True if this vclock includes every row of `other`."""
        return all(self[replica_id] >= lsn for replica_id, lsn in other.items() if replica_id or not ignore_zero)

    def merge_min(self, other: Mapping[int, int]) -> None:
        """Lower every component to that of `other`; component 0 stays."""
        for replica_id in list(self):
            if replica_id and self[replica_id] > other.get(replica_id, 0):
                self.reset(replica_id, other.get(replica_id, 0))

    def merge_max(self, other: Mapping[int, int]) -> None:
        """Raise every component to that of `other`."""
        for replica_id, lsn in other.items():
            if lsn > self[replica_id]:
                self[replica_id] = lsn

    def __str__(self) -> str:
        return "{" + ", ".join(f"{replica_id}: {lsn}" for replica_id, lsn in sorted(self.items())) + "}"

    def __repr__(self) -> str:
        return f"VClock({self})"

    @classmethod
    def of(cls, items: Iterable[tuple[int, int]]) -> VClock:
        """Make a vclock from pairs; pairs with lsn 0 are ignored."""
        return cls((replica_id, lsn) for replica_id, lsn in items if lsn)

    @classmethod
    def parse(cls, text: str) -> VClock:
        """Parse the text form.

        Raises:
            ValueError: the text has another form, or an id is repeated or too large.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a vclock: {text!r}")
        clock = cls()
        parts = match["items"].split(",")
        if not parts[-1].strip():
            parts.pop()
        for part in parts:
            item = _ITEM.fullmatch(part)
            replica_id, lsn = (int(item[1]), int(item[2])) if item else (-1, 0)
            if not 0 <= replica_id < VCLOCK_MAX or lsn > _MAX_LSN or clock[replica_id]:
                raise ValueError(f"not a vclock: {text!r}")
            clock.reset(replica_id, lsn)
        return clock

    def encode(self) -> bytes:
        """Encode the MessagePack map for other instances: ascending ids, without component 0."""
        packed: bytes = msgpack.packb({i: lsn for i, lsn in sorted(self.items()) if i})
        return packed

    @classmethod
    def decode(cls, raw: bytes) -> VClock:
        """Decode the MessagePack map.

        Raises:
            ClientError: INVALID_MSGPACK (`invalid VCLOCK`).
        """
        try:
            value = msgpack.unpackb(raw, strict_map_key=False)
        except (ValueError, msgpack.exceptions.UnpackException):
            value = None
        return cls.from_map(value)

    @classmethod
    def from_map(cls, value: Any, what: str = "invalid VCLOCK") -> VClock:
        """Make a vclock from the decoded map of another instance; component 0 and components with lsn 0 are skipped."""
        if not isinstance(value, dict):
            raise client_error(ErrorCode.INVALID_MSGPACK, what)
        for item in (*value.keys(), *value.values()):
            if type(item) is not int or item < 0:
                raise client_error(ErrorCode.INVALID_MSGPACK, what)
        if any(replica_id >= VCLOCK_MAX for replica_id in value):
            raise client_error(ErrorCode.INVALID_MSGPACK, what)
        return cls((replica_id, lsn) for replica_id, lsn in value.items() if replica_id and lsn)
