"""Measures prepared statements over IPROTO, beside Tarantool: `python -m test.bench.sql [--rounds N] [--scale 0.1]`.

Each statement is measured with a blocking client that writes a thousand requests with one system call, so that the rate
is the server's. Rows "in flight" are measured with asynctnt and a thousand requests in flight: that client takes a
processor itself. The servers take turns; the table has the best rates, and the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import asynctnt
import msgpack
import uvloop

from box.wire.constants import Key, RequestType
from box.wire.row import Row, encode_packet
from test.bench.__main__ import compiled_modules, server, tarantool_command
from test.bench.pipelined import Client

_BATCH = 1000
"""Requests in one system call, and requests in flight."""
_ROWS = 100_000
_FIRST = 1_000_000
"""The first id: all ids from here are encoded in five bytes, so that all replies have one size."""
_TABLE = "CREATE TABLE bench (id INT PRIMARY KEY, name TEXT, price DOUBLE)"


class Statement(NamedTuple):
    """A statement to measure; `params` returns its parameters for an id."""

    name: str
    text: str
    params: Callable[[int], list[Any]]


_STATEMENTS = (
    Statement("replace", "REPLACE INTO bench VALUES (?, ?, ?)", lambda id: [id, "name", 1.5]),
    Statement("select *", "SELECT * FROM bench WHERE id = ?", lambda id: [id]),
    Statement("select name", "SELECT name FROM bench WHERE id = ?", lambda id: [id]),
    Statement("update", "UPDATE bench SET name = ? WHERE id = ?", lambda id: ["name", id]),
    Statement("delete", "DELETE FROM bench WHERE id = ?", lambda id: [id]),
    Statement("insert", "INSERT INTO bench VALUES (?, ?, ?)", lambda id: [id, "name", 1.5]),
)
"""The order matters: `replace` stores the rows that the next ones read, `delete` removes them for `insert`."""


_IN_FLIGHT = (
    _STATEMENTS[1],
    Statement("insert", _STATEMENTS[-1].text, lambda id: [2 * _FIRST + id, "name", 1.5]),
)
"""Statements for many requests in flight; Tarantool 2.8.1 crashes if many fibers run any of the others."""


def _packet(kind: int, sync: int, fields: dict[Key, Any]) -> bytes:
    body = msgpack.packb({int(key): value for key, value in fields.items()})
    packet: bytes = encode_packet(Row(kind, sync=sync, body=body))
    return packet


class Statements:
    """A blocking client that executes prepared statements."""

    def __init__(self, uri: str) -> None:
        self._client = Client(uri)
        self._prepared: dict[str, int] = {}

    def execute(self, text: str) -> None:
        """Execute a statement without parameters.

        Raises:
            SystemExit: it has failed.
        """
        self._client.reply_size_of(_packet(RequestType.EXECUTE, 1, {Key.SQL_TEXT: text, Key.SQL_BIND: []}))

    def _prepare(self, text: str) -> int:
        if text not in self._prepared:
            [reply] = self._client.ask(_packet(RequestType.PREPARE, 1, {Key.SQL_TEXT: text}), 1)
            body = msgpack.unpackb(reply.body, strict_map_key=False)
            self._prepared[text] = body[Key.STMT_ID]
        return self._prepared[text]

    def _batches(self, statement: Statement, count: int) -> Iterator[bytes]:
        prepared = self._prepare(statement.text)
        for first in range(_FIRST, _FIRST + count, _BATCH):
            yield b"".join(
                _packet(RequestType.EXECUTE, 100_000, {Key.STMT_ID: prepared, Key.SQL_BIND: statement.params(id)})
                for id in range(first, first + _BATCH)
            )

    def rate(self, statement: Statement, count: int) -> float:
        """Return executions a second.

        Raises:
            SystemExit: an execution of the first batch, which does not count, has failed.
        """
        first, *batches = self._batches(statement, count + _BATCH)
        failed = [reply for reply in self._client.ask(first, _BATCH) if reply.type != RequestType.OK]
        if failed:
            raise SystemExit(f"{statement.text}: {len(failed)} failed, the first with {failed[0].body!r}")
        size = self._client.reply_size
        start = time.perf_counter()
        for batch in batches:
            self._client.send(batch)
            self._client.read(size)
        return len(batches) * _BATCH / (time.perf_counter() - start)


async def _rate_in_flight(uri: str, statement: Statement, count: int) -> float:
    """Return executions a second of an asynctnt client with a thousand requests in flight."""
    host, port = uri.rsplit(":", 1)
    connection = asynctnt.Connection(host=host, port=int(port))
    await connection.connect()
    async with connection.prepare(statement.text) as prepared:

        async def worker(first: int) -> None:
            for id in range(first, _FIRST + count, _BATCH):
                await prepared.execute(statement.params(id))

        start = time.perf_counter()
        await asyncio.gather(*(worker(first) for first in range(_FIRST, _FIRST + _BATCH)))
        rate = count / (time.perf_counter() - start)
    await connection.disconnect()
    return rate


def _rates(executable: list[str], wal_mode: str, count: int) -> dict[str, float]:
    """Start a server and measure all statements; returns rates by name."""
    with (
        tempfile.TemporaryDirectory(prefix="bench") as root,
        server(executable, Path(root) / "data", wal_mode) as (uri, _, _),
    ):
        client = Statements(uri)
        client.execute(_TABLE)
        rates = {statement.name: client.rate(statement, count) for statement in _STATEMENTS}
        for statement in _IN_FLIGHT:
            rates[f"{statement.name}, in flight"] = uvloop.run(_rate_in_flight(uri, statement, count))
        return rates


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m test.bench.sql", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the number of executions")
    parser.add_argument("--rounds", type=int, default=3, help="how often each server is measured")
    parser.add_argument("--wal-mode", default="none", choices=("none", "write"), help="the servers' wal_mode")
    args = parser.parse_args()
    tarantool = tarantool_command()
    executables = [[sys.executable, "-m", "console"], *([list(tarantool)] if tarantool else [])]
    count = int(_ROWS * args.scale)
    found: list[list[dict[str, float]]] = []
    with compiled_modules():
        for _ in range(args.rounds):
            found.append([_rates(executable, args.wal_mode, count) for executable in executables])
    print(f"| prepared statement, wal_mode {args.wal_mode} | this node, 1/s | Tarantool, 1/s | ratio |")
    print("|---|---:|---:|---:|")
    for name in found[0][0]:
        rounds = [[rates[name] for rates in row] for row in found]
        best = [max(column) for column in zip(*rounds, strict=True)]
        ratio = f"{statistics.median(row[0] / row[1] for row in rounds):.2f}" if len(best) > 1 else ""
        print(f"| {name} | {' | '.join(f'{rate:,.0f}' for rate in best)} | {ratio} |")


if __name__ == "__main__":
    main()
