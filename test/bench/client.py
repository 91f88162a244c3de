"""Measures requests a second of an asynctnt client that keeps many requests in flight.

Usage: python -m test.bench.client URI REQUESTS IN_FLIGHT NAME...; prints a line `NAME RATE` for each kind of request.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

import asynctnt
import uvloop


async def _rate(request: Callable[[int], Awaitable[object]], count: int, in_flight: int) -> float:
    """Send `count` requests, `in_flight` at a time, and return the best rate (1/s) of three rounds."""

    async def worker(first: int) -> None:
        for number in range(first, count, in_flight):
            await request(number)

    best = 0.0
    for _ in range(3):
        start = time.perf_counter()
        await asyncio.gather(*(worker(first) for first in range(in_flight)))
        best = max(best, count / (time.perf_counter() - start))
    return best


_REQUESTS: dict[str, Callable[[asynctnt.Connection, int], Awaitable[object]]] = {
    "replace": lambda connection, number: connection.replace("bench", [number, "name", 1.5]),
    "select": lambda connection, number: connection.select("bench", [number]),
    "update": lambda connection, number: connection.update("bench", [number], [["=", 1, "other"]]),
    "call": lambda connection, number: connection.call("echo", [number]),
    "call_replace": lambda connection, number: connection.call("stored", [number]),
    "call_goes_on": lambda connection, number: connection.call("stored_first", [number]),
    "call_read": lambda connection, number: connection.call("stored_then_read", [number]),
    "eval": lambda connection, number: connection.eval("return ...", [number]),
}


async def _main(uri: str, count: int, in_flight: int, names: list[str]) -> None:
    host, port = uri.rsplit(":", 1)
    connection = asynctnt.Connection(host=host, port=int(port))
    await connection.connect()
    try:
        for name in names:
            print(name, await _rate(partial(_REQUESTS[name], connection), count, in_flight))
    finally:
        await connection.disconnect()


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
