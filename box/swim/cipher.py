"""Encryption of packets with the system's OpenSSL library.

An encrypted packet is an initial vector, new for each packet, followed by the encrypted bytes. The key is the same on
all nodes. Algorithms and modes have the numbers of Tarantool's `crypto` module.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_ulong, c_void_p
from functools import cache
from typing import Final

from box.errors import BoxError, ErrorCode, unsupported

_ALGORITHMS: Final = {1: ("aes-128", 16, 16), 2: ("aes-192", 24, 16), 3: ("aes-256", 32, 16), 4: ("des", 8, 8)}
"""The name, the size of a key and that of a block in bytes, by number; 0 is none."""
_MODES: Final = ("ecb", "cbc", "cfb", "ofb")
_LIBRARIES: Final = ("libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so", "libcrypto.3.dylib", "libcrypto.dylib")
_ERROR_SIZE: Final = 256


def _crypto_error(text: str) -> BoxError:
    return BoxError(ErrorCode.PROC_LUA, text, type="CryptoError")


@cache
def _library() -> ctypes.CDLL:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        _declare(library)
        return library
    raise unsupported("A system without the OpenSSL library", "ciphers")


def _declare(library: ctypes.CDLL) -> None:
    number = ctypes.POINTER(c_int)
    for name, result, arguments in (
        ("EVP_CIPHER_CTX_new", c_void_p, []),
        ("EVP_CIPHER_CTX_free", None, [c_void_p]),
        ("EVP_get_cipherbyname", c_void_p, [c_char_p]),
        ("EVP_CipherInit_ex", c_int, [c_void_p, c_void_p, c_void_p, c_char_p, c_char_p, c_int]),
        ("EVP_CipherUpdate", c_int, [c_void_p, c_char_p, number, c_char_p, c_int]),
        ("EVP_CipherFinal_ex", c_int, [c_void_p, c_void_p, number]),
        ("ERR_get_error", c_ulong, []),
        ("ERR_error_string_n", None, [c_ulong, c_char_p, ctypes.c_size_t]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def _openssl_error(library: ctypes.CDLL) -> BoxError:
    text = ctypes.create_string_buffer(_ERROR_SIZE)
    number = library.ERR_get_error()
    while following := library.ERR_get_error():  # the last one is of the next failure otherwise
        number = number or following
    library.ERR_error_string_n(number, text, _ERROR_SIZE)
    return _crypto_error(f"OpenSSL error: {text.value.decode(errors='replace')}")


class Cipher:
    """One algorithm with its key of `size` bytes. `random_bytes(size)` makes initial vectors.

    Raises:
        BoxError: the key has a wrong size, or the library lacks the algorithm.
    """

    def __init__(self, algorithm: int, mode: int, key: bytes, size: int, random_bytes: Callable[[int], bytes]) -> None:
        name, key_size, self._block = _ALGORITHMS[algorithm]
        if size != key_size:
            raise _crypto_error(f"key size expected {key_size}, got {size}")
        self._random_bytes = random_bytes
        self._key = key
        self._vector = 0 if _MODES[mode] == "ecb" else self._block
        full_name = f"{name}-{_MODES[mode]}"
        self._cipher = _library().EVP_get_cipherbyname(full_name.encode())
        if not self._cipher:
            raise unsupported("The OpenSSL library of this system", f"cipher '{full_name}'")
        self.encrypt(b"")  # a library may know the name and lack the algorithm

    def encrypt(self, data: bytes) -> bytes:
        """Return the encrypted packet."""
        vector = self._random_bytes(self._vector)
        return vector + self._run(data, vector, is_encryption=True)

    def decrypt(self, data: bytes) -> bytes:
        """Return the packet.

        Raises:
            BoxError: the packet was encrypted with another key or algorithm, or is damaged.
        """
        if len(data) < self._vector:
            text = "too small message, can't extract IV for decryption"
            raise BoxError(ErrorCode.PROC_LUA, text, type="SwimError")
        return self._run(data[self._vector :], data[: self._vector], is_encryption=False)

    def _run(self, data: bytes, vector: bytes, *, is_encryption: bool) -> bytes:
        library = _library()
        out = ctypes.create_string_buffer(len(data) + 2 * self._block)
        size, rest = c_int(0), c_int(0)
        context = library.EVP_CIPHER_CTX_new()
        try:
            if (
                library.EVP_CipherInit_ex(context, self._cipher, None, self._key, vector, int(is_encryption)) != 1
                or library.EVP_CipherUpdate(context, out, ctypes.byref(size), data, len(data)) != 1
                or library.EVP_CipherFinal_ex(context, ctypes.addressof(out) + size.value, ctypes.byref(rest)) != 1
            ):
                raise _openssl_error(library)
        finally:
            library.EVP_CIPHER_CTX_free(context)
        return out.raw[: size.value + rest.value]
