"""`digest` and `crypto`: checksums and hashes."""

from __future__ import annotations

import asyncio
import base64
import binascii
import string
from typing import TYPE_CHECKING, Final

import mmh3
from google_crc32c import extend

from box.errors import BoxError, ErrorCode, unsupported
from lua.bindings.binding import Binding, Outcome, exported, guarded, text, waiting

if TYPE_CHECKING:
    import hashlib  # at run time imported where it is needed, because it loads libcrypto

_MASK: Final = 0xFFFFFFFF
_OTHERS: Final = bytes(set(range(256)) - set((string.ascii_letters + string.digits + "+/").encode()))
"""The bytes that are no digits of Base64, of either alphabet once `_URL_SAFE` is applied."""
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_LINE: Final = 72
"""The characters in a line of wrapped base64."""
_GUAVA_FACTOR: Final = 2862933555777941757
"""The multiplier of the 64-bit linear congruential generator in Guava's consistent hash."""


def guava(state: int, buckets: int) -> int:
    """Return the bucket of a number among `buckets` by Guava's consistent hash."""
    candidate = 0
    while True:
        # The highest 31 of the generator's 64 bits are the random number, as a share of 2^31.
        state = (_GUAVA_FACTOR * state + 1) & 0xFFFFFFFFFFFFFFFF
        step = ((state >> 33) + 1) / 2.0**31
        following = int((candidate + 1) / step)
        if not 0 <= following < buckets:
            return candidate
        candidate = following


def encode_base64(data: bytes, *, padding: bool, wrap: bool, url_safe: bool) -> bytes:
    """Encode Base64, in lines of 72 characters with `wrap`."""
    encoded = base64.urlsafe_b64encode(data) if url_safe else base64.b64encode(data)
    if not padding:
        encoded = encoded.rstrip(b"=")
    if wrap:
        encoded = b"\n".join(encoded[pos : pos + _LINE] for pos in range(0, len(encoded), _LINE))
    return encoded


def decode_base64(data: bytes) -> bytes:
    """Decode Base64 in either alphabet; other characters are skipped."""
    digits = data.translate(_URL_SAFE).translate(None, _OTHERS)
    if len(digits) % 4 == 1:  # a last digit alone has only six bits of a byte
        digits = digits[:-1]
    return binascii.a2b_base64(digits + b"=" * (-len(digits) % 4))


class DigestBinding(Binding):
    """Python half of lua/modules/digest.lua and crypto.lua."""

    @guarded("digest_hash")
    def hash(self, name: bytes, data: bytes) -> Outcome:
        """Return the raw digest.

        Raises:
            UnsupportedError: this system's OpenSSL library lacks the algorithm.
        """
        return _new_hash(text(name), data).digest()

    @guarded("digest_hmac")
    def hmac(self, name: bytes, key: bytes, data: bytes) -> Outcome:
        """Return the raw authentication code."""
        import hmac

        _new_hash(text(name), b"")
        return hmac.digest(key, data, text(name))

    @exported("digest_crc32")
    def crc32(self, state: float, data: bytes) -> int:
        """Return the CRC-32C without the final inversion."""
        crc: int = extend(int(state) ^ _MASK, data)
        return crc ^ _MASK

    @exported("digest_murmur")
    def murmur(self, seed: float, data: bytes) -> int:
        """Return the 32-bit MurmurHash3."""
        return mmh3.hash(data, int(seed) & _MASK, signed=False)

    @exported("digest_guava")
    def guava(self, state: bytes, buckets: float) -> int:
        """Return Guava's bucket; `state` is 8 bytes, little endian."""
        return guava(int.from_bytes(state, "little"), int(buckets))

    @exported("digest_base64_encode")
    def base64_encode(self, data: bytes, padding: bool, wrap: bool, url_safe: bool) -> bytes:
        """Encode Base64; see `encode_base64`."""
        return encode_base64(data, padding=padding, wrap=wrap, url_safe=url_safe)

    @exported("digest_base64_decode")
    def base64_decode(self, data: bytes) -> bytes:
        """Decode Base64; see `decode_base64`."""
        return decode_base64(data)

    @exported("digest_urandom")
    def urandom(self, size: float) -> bytes:
        """Return random bytes of the machine."""
        return self.runtime.machine.identity.random_bytes(int(size))

    @waiting("digest_pbkdf2", is_cancellable=False)
    async def pbkdf2(self, password: bytes, salt: bytes, iterations: float, size: float) -> bytes:
        """Calculate PBKDF2 with SHA-256 in a thread."""
        import hashlib

        return await asyncio.to_thread(
            hashlib.pbkdf2_hmac, "sha256", password, salt, max(int(iterations), 1), int(size)
        )


def _new_hash(name: str, data: bytes) -> hashlib._Hash:
    import hashlib

    try:
        return hashlib.new(name, data, usedforsecurity=False)
    except ValueError:
        raise unsupported("The OpenSSL library of this system", f"digest '{name}'") from None
    except TypeError as error:
        raise BoxError(ErrorCode.PROC_LUA, str(error), type="CryptoError") from None
