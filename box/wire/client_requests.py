"""Bodies of the requests that the 2.11 line has added: features, transactions, watchers.

```
ID               [0x54 version, 0x55 features, 0x5b authentication]    reply: all three
BEGIN            [0x56 timeout, 0x59 isolation]                        COMMIT, ROLLBACK: no body
WATCH, UNWATCH   0x57 key                                              no reply
EVENT            0x57 key, [0x58 value]                                from the server, with the sync of WATCH
```

Source: the protocol's reference document; texts and their order as observed on a 2.11.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import msgpack

from box.data.codec import pack, unpack
from box.data.marks import FIXARRAY, FIXMAP, FLOAT64, UINT32
from box.wire.body import invalid, is_array, is_map, is_str, is_uint, missing, walk
from box.wire.constants import Key, RequestType
from box.wire.features import FEATURES, PROTOCOL_VERSION
from box.wire.row import encode_uint

_ONE_PAIR: Final = FIXMAP | 1
_TWO_PAIRS: Final = FIXMAP | 2
_EMPTY_ARRAY: Final = bytes((FIXARRAY,))
_AUTH_TYPE: Final = "chap-sha1"
_FRAME = struct.Struct(">BI").pack


@dataclass(slots=True)
class BeginRequest:
    """The body of a BEGIN. `timeout` is in seconds, None for the instance's default; `isolation` is the number of a
    level.
    """

    timeout: float | None = None
    isolation: int = 0


def _fields(body: bytes, part: str) -> dict[int, bytes]:
    """Return the raw values of a body by key.

    Raises:
        ClientError: INVALID_MSGPACK with the name of the part, the body is not a map with unsigned keys.
    """
    if not is_map(body[0]):
        raise invalid(part)
    fields: dict[int, bytes] = {}
    for key, raw in walk(body):
        if key is None:
            raise invalid(part)
        fields[key] = raw
    return fields


def decode_begin(body: bytes) -> BeginRequest:
    """Decode the body of a BEGIN, which may be missing.

    Raises:
        ClientError: INVALID_MSGPACK (`request body`).
    """
    request = BeginRequest()
    if not body:
        return request
    fields = _fields(body, "request body")
    if Key.TIMEOUT in fields:
        raw = fields[Key.TIMEOUT]
        if raw[0] != FLOAT64:
            raise invalid("request body")
        request.timeout = unpack(raw) or None  # zero is the default
    if Key.TXN_ISOLATION in fields:
        raw = fields[Key.TXN_ISOLATION]
        if not is_uint(raw[0]):
            raise invalid("request body")
        request.isolation = unpack(raw)
    return request


def decode_id(body: bytes) -> frozenset[int]:
    """Check the body of an ID request. Returns the numbers of the client's features.

    Raises:
        ClientError: INVALID_MSGPACK (`request body`).
    """
    if not body:
        raise invalid("request body")
    fields = _fields(body, "request body")
    checks = {Key.VERSION: is_uint, Key.FEATURES: is_array, Key.AUTH_TYPE: is_str}
    for key, check in checks.items():
        if key in fields and not check(fields[key][0]):
            raise invalid("request body")
    features = msgpack.unpackb(fields.get(Key.FEATURES, _EMPTY_ARRAY), raw=True, strict_map_key=False)
    if any(type(feature) is not int or feature < 0 for feature in features):
        raise invalid("request body")
    return frozenset(features)


def encode_id() -> bytes:
    """Encode the body of an ID request or its reply."""
    return pack(
        {
            int(Key.VERSION): PROTOCOL_VERSION,
            int(Key.FEATURES): sorted(FEATURES.values()),
            int(Key.AUTH_TYPE): _AUTH_TYPE,
        }
    )


def decode_watch(body: bytes) -> bytes:
    """Decode the body of a WATCH or UNWATCH. Returns the key, a string of any bytes.

    Raises:
        ClientError: INVALID_MSGPACK (`missing request body`, `packet body`) or MISSING_REQUEST_FIELD.
    """
    if not body:
        raise invalid("missing request body")
    fields = _fields(body, "packet body")
    if Key.EVENT_KEY not in fields:
        raise missing(Key.EVENT_KEY)
    raw = fields[Key.EVENT_KEY]
    if not is_str(raw[0]):
        raise invalid()
    key: bytes = msgpack.unpackb(raw, raw=True)
    return key


def encode_event(sync: int, key: bytes, value: bytes | None) -> bytes:
    """Encode an EVENT packet; `value` is one encoded value, or None if the key has no value."""
    header = (
        bytes((_TWO_PAIRS, Key.REQUEST_TYPE)) + encode_uint(RequestType.EVENT) + bytes((Key.SYNC,)) + encode_uint(sync)
    )
    # Without the type of binaries, which is newer: Tarantool's keys are strings, whatever bytes they have.
    head = msgpack.Packer(use_bin_type=False).pack(key)
    body: bytes
    if value is None:
        body = bytes((_ONE_PAIR, Key.EVENT_KEY)) + head
    else:
        body = bytes((_TWO_PAIRS, Key.EVENT_KEY)) + head + bytes((Key.EVENT_DATA,)) + value
    frame: bytes = _FRAME(UINT32, len(header) + len(body))
    return frame + header + body
