"""Moments in the history of an instance that a table can be read at: the option `as_of`.

| text | the table after |
|---|---|
| `latest` | all whole transactions that the files hold |
| `120` | the transactions up to this lsn (of several instances: up to this signature, the number in names of files) |
| `{1: 100, 2: 20}` | the transactions of each instance up to its component of the vclock |
| `2026-01-31 12:00:00`, `@1767225600.5` | those before the first one that is later |

A time is in ISO 8601, local where it names no zone, or in seconds since 1970. A transaction is in the table as a whole
or not at all.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass

from box.errors import illegal_params
from box.wire.row import Row
from box.wire.vclock import VClock


@dataclass(frozen=True, slots=True)
class Moment:
    """One of a signature, a vclock and a time (seconds since 1970); `latest` has none."""

    text: str
    signature: int | None = None
    vclock: VClock | None = None
    time: float | None = None

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Raises ILLEGAL_PARAMS for a text that is none of the forms."""
        value = text.strip()
        if value == "latest":
            return cls(value)
        try:
            if value.isdecimal():
                return cls(value, signature=int(value))
            if value.startswith("{"):
                return cls(value, vclock=VClock.parse(value))
            if value.startswith("@"):
                time = float(value[1:])
            else:
                time = datetime.datetime.fromisoformat(value).timestamp()
            if not math.isfinite(time):
                raise ValueError
        except (ValueError, OverflowError):
            raise illegal_params(
                f"as_of '{text}' is neither 'latest' nor an lsn, a vclock like {{1: 100}} or a time like "
                "2026-01-31 12:00:00"
            ) from None
        return cls(value, time=time)

    def is_after(self, vclock: VClock, time: float | None) -> bool:
        """Whether a snapshot with this vclock, written at this time, does not show anything later."""
        if self.signature is not None:
            return vclock.signature <= self.signature
        if self.vclock is not None:
            return self.vclock.covers(vclock, ignore_zero=True)
        return self.time is None or time is None or time <= self.time

    def is_past(self, vclock: VClock, transaction: Sequence[Row]) -> bool:
        """Whether the log is past the moment with this transaction, which leads to `vclock`: nothing more counts."""
        if self.signature is not None:
            return vclock.signature > self.signature
        if self.time is not None:
            return max(row.tm for row in transaction) > self.time
        return False

    def leaves_out(self, transaction: Sequence[Row]) -> bool:
        """Whether the transaction is later in its own instance's history, though later ones of others may count."""
        if self.vclock is None:
            return False
        last = transaction[-1]
        return bool(last.replica_id) and last.lsn > self.vclock[last.replica_id]

    def is_reached(self, vclock: VClock) -> bool:
        """Whether rows up to `vclock` are enough to tell."""
        if self.signature is not None:
            return vclock.signature >= self.signature
        return self.vclock is None or vclock.covers(self.vclock, ignore_zero=True)
