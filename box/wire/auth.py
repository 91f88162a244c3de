"""chap-sha1: how a client proves that it knows a password without sending it.

```
stored hash = sha1(sha1(password))                                   20 bytes, base64 in `_user`
scramble    = xor(sha1(password), sha1(salt[:20] + stored hash))     what the client sends
```

Source: the protocol's reference document.
"""

from __future__ import annotations

from typing import Any, Final

import msgpack

from box.wire.constants import Key

SCRAMBLE_SIZE: Final = 20
"""The size of a SHA-1 digest in bytes, and so of all that is made of digests."""
MECHANISM: Final = "chap-sha1"


def _sha1(data: bytes) -> bytes:
    # Imported here because it loads libcrypto, which an instance without passwords does not need.
    from hashlib import sha1

    return sha1(data).digest()


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def scramble(salt: bytes, password: str | bytes) -> bytes:
    """Return the 20-byte scramble for a greeting's salt, of which only the first 20 bytes are used."""
    raw = password.encode("utf-8", "surrogateescape") if isinstance(password, str) else password
    first = _sha1(raw)
    return _xor(first, _sha1(salt[:SCRAMBLE_SIZE] + _sha1(first)))


def is_right_scramble(candidate: bytes, salt: bytes, stored_hash: bytes) -> bool:
    """True if the scramble came from the password behind `stored_hash`."""
    import hmac

    first = _xor(candidate, _sha1(salt[:SCRAMBLE_SIZE] + stored_hash))
    return hmac.compare_digest(_sha1(first), stored_hash)


def encode_auth(user: str, password: str | None, salt: bytes) -> bytes:
    """Return the body of an AUTH request: `{user name, [mechanism, scramble]}`.

    Without a password the list is empty, which the server accepts for the user guest only.
    """
    proof: list[Any] = [] if password is None else [MECHANISM, scramble(salt, password)]
    # Tarantool expects the scramble as MP_STR, so this uses the old MessagePack format, which has no binary type.
    body: bytes = msgpack.packb({int(Key.USER_NAME): user, int(Key.TUPLE): proof}, use_bin_type=False)
    return body
