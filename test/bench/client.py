"""One asynctnt client process with many requests in flight: requests a second.

Usage: python -m test.bench.client URI REQUESTS IN_FLIGHT; prints `replace N` and `select N`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import asynctnt
import uvloop


async def _rate(request: Callable[[int], Awaitable[object]], count: int, in_flight: int) -> float:
    """Requests a second, the best of three rounds."""

    async def worker(first: int) -> None:
        for number in range(first, count, in_flight):
            await request(number)

    best = 0.0
    for _ in range(3):
        start = time.perf_counter()
        await asyncio.gather(*(worker(first) for first in range(in_flight)))
        best = max(best, count / (time.perf_counter() - start))
    return best


async def _main(uri: str, count: int, in_flight: int) -> None:
    host, port = uri.rsplit(":", 1)
    connection = asynctnt.Connection(host=host, port=int(port))
    await connection.connect()
    try:
        print(
            "replace", await _rate(lambda number: connection.replace("bench", [number, "name", 1.5]), count, in_flight)
        )
        print("select", await _rate(lambda number: connection.select("bench", [number]), count, in_flight))
    finally:
        await connection.disconnect()


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
