"""Reads the rows of a space over the binary protocol with one client, for the table of `test.bench.spark`.

    python -m test.bench.spark_client node SOCKET ROWS      runs a node with ROWS tuples, and prints `ready`
    python -m test.bench.spark_client read SOCKET           reads them all, page by page, and prints their number

The client is asynctnt, whose decoder is compiled; a page has 10,000 tuples.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from box import Node

_PAGE = 10_000
_FILL = """
local s = box.schema.space.create('goods', {format = {
    {'id', 'unsigned'}, {'name', 'string'}, {'price', 'double'}}})
s:create_index('pk')
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
for n = 0, ... - 1 do s:insert{n, 'name of ' .. (n * 7 % 1000003), n * 0.5 + 0.25} end
"""


async def serve(socket: str, rows: int) -> None:
    """Run a node in memory until the process is ended."""
    async with Node(Path(socket).parent, listen=f"unix/:{socket}", wal_mode="none", log_level=0) as node:
        await node.eval(_FILL, rows)
        print("ready", flush=True)
        await asyncio.Event().wait()


async def read(socket: str) -> int:
    """Read all tuples and return their number."""
    import asynctnt

    connection = asynctnt.Connection(host="unix/", port=socket, reconnect_timeout=0)
    await connection.connect()
    try:
        found, after = 0, 0
        while page := await connection.select("goods", [after] if found else [], iterator="GT", limit=_PAGE):
            found, after = found + len(page), page[-1][0]
        return found
    finally:
        await connection.disconnect()


@contextmanager
def served(directory: Path, rows: int) -> Iterator[str]:
    """Run a node with so many tuples in a child process for this context; yields its socket."""
    directory.mkdir(parents=True, exist_ok=True)
    socket = str(directory / "node.sock")
    command = [sys.executable, "-m", "test.bench.spark_client"]
    with subprocess.Popen([*command, "node", socket, str(rows)], stdout=subprocess.PIPE) as node:
        try:
            assert node.stdout is not None
            if node.stdout.readline() != b"ready\n":
                raise RuntimeError("the node has not started")
            yield socket
        finally:
            node.kill()


def read_in_a_process(socket: str, rows: int) -> None:
    """Read all tuples with a client in a child process.

    Raises:
        RuntimeError: it finds another number than `rows`.
    """
    command = [sys.executable, "-m", "test.bench.spark_client", "read", socket]
    found = int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    if found != rows:
        raise RuntimeError(f"{found} rows instead of {rows}")


def main() -> None:
    if sys.argv[1] == "node":
        asyncio.run(serve(sys.argv[2], int(sys.argv[3])))
    else:
        print(asyncio.run(read(sys.argv[2])))


if __name__ == "__main__":
    main()
