"""The ballot: an instance's answer to VOTE, by which replicas choose the master to bootstrap or rejoin from.

`{ 0x29: { 1 is read-only, 4 is loading, 5 is anonymous, 2 vclock, 3 oldest vclock still served } }`
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgpack

from box.errors import BoxError, ErrorCode, client_error
from box.wire.constants import BallotKey, Key
from box.wire.vclock import VClock


@dataclass(slots=True)
class Ballot:
    """An instance's answer to VOTE.

    `is_loading` is true until bootstrap, recovery or synchronisation has finished. `gc_vclock` is the oldest position
    from which the instance can still serve a subscriber.
    """

    is_ro: bool = False
    is_loading: bool = False
    is_anon: bool = False
    vclock: VClock = field(default_factory=VClock)
    gc_vclock: VClock = field(default_factory=VClock)

    def encode(self) -> bytes:
        """Encode the body of the answer to VOTE."""
        fields: dict[int, Any] = {
            BallotKey.IS_RO: self.is_ro,
            BallotKey.IS_LOADING: self.is_loading,
            BallotKey.IS_ANON: self.is_anon,
            BallotKey.VCLOCK: dict(sorted(self.vclock.without_zero().items())),
            BallotKey.GC_VCLOCK: dict(sorted(self.gc_vclock.without_zero().items())),
        }
        body: bytes = msgpack.packb({int(Key.BALLOT): {int(key): value for key, value in fields.items()}})
        return body

    @classmethod
    def decode(cls, body: bytes) -> Ballot:
        """Decode the body of the answer to VOTE; a body without a ballot gives an empty one.

        Raises:
            ClientError: INVALID_MSGPACK (`packet body`).
        """
        try:
            value = msgpack.unpackb(body, strict_map_key=False)
        except (ValueError, msgpack.exceptions.UnpackException):
            value = None
        if not isinstance(value, dict):
            raise _invalid()
        fields = value.get(Key.BALLOT, {})
        if not isinstance(fields, dict):
            raise _invalid()
        flags = [fields.get(key, False) for key in (BallotKey.IS_RO, BallotKey.IS_LOADING, BallotKey.IS_ANON)]
        if not all(type(flag) is bool for flag in flags):
            raise _invalid()
        clocks = [
            VClock.from_map(fields.get(key, {}), "packet body") for key in (BallotKey.VCLOCK, BallotKey.GC_VCLOCK)
        ]
        return cls(*flags, *clocks)


def _invalid() -> BoxError:
    return client_error(ErrorCode.INVALID_MSGPACK, "packet body")
