"""Moments in the history of an instance at which a table can be read: the option `as_of`.

| text | the table has |
|---|---|
| `latest` | all whole transactions in the files |
| `120` | the transactions up to this lsn (of several instances: up to this signature, the number in names of files) |
| `{1: 100, 2: 20}` | the transactions of each instance up to its component of the vclock |
| `2026-01-31 12:00:00`, `@1767225600.5` | the transactions before the first one that is later |

A time is in ISO 8601, in local time if it names no zone, or `@` and seconds since 1970. A transaction is in the table
as a whole or not at all.
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
    """A moment: a signature, a vclock or a time (seconds since 1970); for `latest` all three are None."""

    text: str
    signature: int | None = None
    vclock: VClock | None = None
    time: float | None = None

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Return the moment that a text describes.

        Raises:
            BoxError: ILLEGAL_PARAMS, the text has none of the forms.
        """
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
        """Return whether a snapshot with this vclock, written at this time, has nothing later than the moment."""
        if self.signature is not None:
            return vclock.signature <= self.signature
        if self.vclock is not None:
            return self.vclock.covers(vclock, ignore_zero=True)
        return self.time is None or time is None or time <= self.time

    def is_past(self, vclock: VClock, transaction: Sequence[Row]) -> bool:
        """Return whether no row from this transaction on counts; `vclock` is the vclock after the transaction."""
        if self.signature is not None:
            return vclock.signature > self.signature
        if self.time is not None:
            return max(row.tm for row in transaction) > self.time
        return False

    def leaves_out(self, transaction: Sequence[Row]) -> bool:
        """Return whether a transaction is later than the moment by its instance's lsn.

        Later transactions of other instances may count all the same.
        """
        if self.vclock is None:
            return False
        last = transaction[-1]
        return bool(last.replica_id) and last.lsn > self.vclock[last.replica_id]

    def is_reached(self, vclock: VClock) -> bool:
        """Return whether the rows up to `vclock` include all rows before the moment."""
        if self.signature is not None:
            return vclock.signature >= self.signature
        return self.vclock is None or vclock.covers(self.vclock, ignore_zero=True)
