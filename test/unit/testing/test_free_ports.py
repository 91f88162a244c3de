"""Ports for nodes that will listen later: different, free, and of no use for the operating system itself."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from box.testing.free_ports import free_ports


@pytest.fixture
def taken() -> Iterator[int]:
    """Yield a port on which a socket listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_ports(1)[0]))
        server.listen()
        yield server.getsockname()[1]


def _draws(monkeypatch: pytest.MonkeyPatch, ports: list[int]) -> None:
    def sample(self: random.SystemRandom, population: Any, k: int) -> list[int]:
        return ports

    monkeypatch.setattr(random.SystemRandom, "sample", sample)


def test_ports_are_different_and_free() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    for port in ports:
        with socket.socket() as server:
            server.bind(("127.0.0.1", port))


def test_no_port_is_one_of_the_operating_system() -> None:
    """Connections and servers with port 0 get ports of a range; the next one of them may be any of it."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < first for port in free_ports(50))


def test_a_port_that_is_taken_is_left_out(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    (other,) = free_ports(1)
    _draws(monkeypatch, [taken, other, 1])
    assert free_ports(1) == [other]


def test_too_few_ports_are_an_error(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    _draws(monkeypatch, [taken])
    with pytest.raises(OSError, match="no free port"):
        free_ports(1)
