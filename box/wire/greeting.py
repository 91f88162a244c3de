r"""The greeting: the first 128 bytes that a server sends.

```
"Tarantool 2.8.1 (Binary) 7170b4c0-a72c-4a07-8e55-3c7c9f1b2f3a"   padded with spaces to 63, then \n
base64 of the 32-byte salt                                       padded with spaces to 63, then \n
```

Source: the protocol's reference document.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, NamedTuple
from uuid import UUID

from box.errors import ErrorCode, client_error
from box.wire.auth import SCRAMBLE_SIZE
from box.wire.constants import GREETING_SIZE
from box.wire.tarantool_version import VERSION, version_id

SALT_SIZE: Final = 32
_LINE: Final = GREETING_SIZE // 2
_NEWLINE: Final = ord("\n")
_GREETING = re.compile(
    r"Tarantool +(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)\S* +(?:\((?P<protocol>[^)]{0,32})\))?(?P<rest>.*)"
)
_FIRST_WITH_UUID: Final = version_id(1, 6, 7)
"""The first version whose greeting names the protocol and the instance; older servers are read, too."""


class Greeting(NamedTuple):
    """The greeting of a server. `version_id` is one number, `protocol` is `Binary` or `Lua console`."""

    version_id: int
    protocol: str
    uuid: UUID
    salt: bytes

    @property
    def version(self) -> str:
        """The version as text, such as `2.8.1`."""
        # The inverse of `version_id`, which gives each part one byte.
        return f"{self.version_id >> 16}.{self.version_id >> 8 & 255}.{self.version_id & 255}"


def is_version(text: str) -> bool:
    """Return whether a text may be the version of a greeting: three numbers below 256 in decimal digits."""
    return re.fullmatch(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){2}", text) is not None and all(
        int(part) < 256 for part in text.split(".")
    )


def encode_greeting(uuid: UUID, salt: bytes, version: str = VERSION) -> bytes:
    """Encode the 128 bytes of a greeting; `salt` has 32 bytes."""
    first = f"Tarantool {version} (Binary) {uuid}".encode("ascii")
    return first.ljust(_LINE - 1) + b"\n" + base64.b64encode(salt).ljust(_LINE - 1) + b"\n"


def decode_greeting(raw: bytes) -> Greeting:
    """Decode a greeting. A console's greeting has neither UUID nor salt.

    Raises:
        ClientError: PROTOCOL (`Invalid greeting`).
    """
    invalid = client_error(ErrorCode.PROTOCOL, "Invalid greeting")
    match = _GREETING.fullmatch(raw[: _LINE - 1].decode("latin-1"))
    if match is None or len(raw) != GREETING_SIZE or raw[_LINE - 1] != _NEWLINE or raw[-1] != _NEWLINE:
        raise invalid
    version = version_id(int(match["major"]), int(match["minor"]), int(match["patch"]))
    protocol = match["protocol"]
    if protocol is None:
        if version >= _FIRST_WITH_UUID:
            raise invalid
        protocol = "Binary"
    if protocol != "Binary":
        return Greeting(version, protocol, UUID(int=0), b"")
    try:
        uuid = UUID(match["rest"].strip()) if version >= _FIRST_WITH_UUID else UUID(int=0)
        salt = base64.b64decode(raw[_LINE:-1].strip(), validate=True)
    except (ValueError, binascii.Error):
        raise invalid from None
    # A scramble takes 20 bytes of the salt. A server may send more than that and than our own 32.
    if not SCRAMBLE_SIZE <= len(salt) < _LINE:
        raise invalid
    return Greeting(version, protocol, uuid, salt)
