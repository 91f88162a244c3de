"""Errors on the wire: the body of an error reply, which has two forms.

```
{ 0x31: message,                       known to every client
  0x52: {0: [{...}, cause, ...]} }     see box/data/error_body.py
```
"""

from __future__ import annotations

import msgpack

from box.data.error_body import encode_error_stack, error_of_stack
from box.errors import BoxError
from box.wire.constants import TYPE_ERROR, Key
from box.wire.row import Row


def encode_error_body(error: BoxError) -> bytes:
    """Encode the body of an error reply, with the message and the error stack."""
    message: bytes = msgpack.packb(error.message, unicode_errors="surrogateescape")
    # 0x82: a map of two pairs; 0x31 and 0x52: the keys ERROR_24 and ERROR.
    return b"\x82\x31" + message + b"\x52" + encode_error_stack(error)


def decode_error_body(type_with_flag: int, body: bytes) -> BoxError:
    """Decode the error of a reply: its stack if it has one, otherwise the message with the code of the reply's type.

    An unreadable body gives an error with the code and an empty text.
    """
    code = type_with_flag & (TYPE_ERROR - 1)
    try:
        value = msgpack.unpackb(body, strict_map_key=False, unicode_errors="surrogateescape")
    except (ValueError, msgpack.exceptions.UnpackException):
        value = None
    if not isinstance(value, dict):
        return BoxError(code, "")
    if Key.ERROR in value:
        try:
            return error_of_stack(value[Key.ERROR])
        except BoxError as malformed:
            return malformed
    message = value.get(Key.ERROR_24)
    return BoxError(code, message if isinstance(message, str) else "")


def raise_if_error(row: Row) -> None:
    """Raise the error that a reply carries, if it carries one."""
    if row.type & TYPE_ERROR:
        raise decode_error_body(row.type, row.body)
