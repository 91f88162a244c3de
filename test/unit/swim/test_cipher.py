"""Encrypted packets: all algorithms, and what is no packet."""

from __future__ import annotations

import os
from random import Random

import pytest

from box.errors import BoxError
from box.swim import Address, Cipher
from box.swim.addresses import parse_address

KEYS = {1: 16, 2: 24, 3: 32, 4: 8}


def cipher(algorithm: int, mode: int, key: bytes | None = None) -> Cipher:
    key = key or bytes(range(KEYS[algorithm]))
    try:
        return Cipher(algorithm, mode, key, len(key), os.urandom)
    except BoxError as error:
        if algorithm == 4 and "size" not in error.message:
            pytest.skip("DES is not in this OpenSSL library")
        raise


def outcome(codec: Cipher, data: bytes) -> bytes | str:
    """Return what decrypting gives, or the family of the error."""
    try:
        return codec.decrypt(data)
    except BoxError as error:
        return error.type


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("algorithm", KEYS)
def test_packets_come_through(algorithm: int, mode: int) -> None:
    """A packet of any size comes out as it was, and fits into a datagram."""
    codec = cipher(algorithm, mode)
    for size in (0, 1, 15, 16, 17, 1440):
        data = bytes(size)
        encrypted = codec.encrypt(data)
        assert codec.decrypt(encrypted) == data
        assert len(encrypted) <= 1472
        assert mode == 0 or codec.encrypt(data) != encrypted


@pytest.mark.parametrize("mode", range(4))
def test_what_was_not_encrypted(mode: int) -> None:
    """Random bytes, truncated packets and those of another key give an error or other bytes."""
    codec, other, random = cipher(1, mode), cipher(1, mode, b"another key 1234"), Random(1)
    packet = codec.encrypt(b"a packet of some length, for several blocks")
    for data in [packet[:size] for size in range(len(packet))] + [random.randbytes(50) for _ in range(500)]:
        assert outcome(codec, data) != b"a packet of some length, for several blocks"
    assert outcome(other, packet) != codec.decrypt(packet)


def test_too_short_for_a_vector() -> None:
    with pytest.raises(BoxError, match="too small message, can't extract IV for decryption"):
        cipher(3, 1).decrypt(b"x")


def test_sizes_of_keys() -> None:
    with pytest.raises(BoxError, match="key size expected 24, got 5"):
        cipher(2, 1, b"short")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("3301", Address(0x7F000001, 3301)),
        ("localhost:1", Address(0x7F000001, 1)),
        ("user:secret@10.1.2.3:70000", Address(0x0A010203, 70000 - 65536)),
        ("127.0.0.1:http", Address(0x7F000001, 0)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    """A port alone is of this host; a number beyond 16 bits is cut, a name of a service is 0, as in C."""
    assert parse_address(text, "f:") == address


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x", 'invalid uri "x", called on fd -1'),
        ("", 'invalid uri "", called on fd -1'),
        ("example.org:1", 'invalid uri "example.org:1", called on fd -1'),
        ("[::1]:1", 'invalid uri "[::1]:1", called on fd -1'),
        ("255.255.255.255:1", 'invalid uri "255.255.255.255:1", called on fd -1'),
        ("unix/:/tmp/x", "f: only IP sockets are supported"),
        ("0.0.0.0:1", "f: INADDR_ANY is not supported"),
    ],
)
def test_addresses_that_are_refused(text: str, problem: str) -> None:
    with pytest.raises(BoxError) as caught:
        parse_address(text, "f:")
    assert caught.value.message == problem
