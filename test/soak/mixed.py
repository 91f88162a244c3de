"""The campaign "mixed": fifty clients send every kind of request to one instance, which must stay correct and small.

Each client draws its next step: a request for rows of its own, a transfer between two accounts that all clients share,
the sum of all accounts, a change of the schema, a burst of requests, a large reply, pushed messages, or a disconnect in
the middle of a request. The instance has MVCC, so transfers conflict; it makes checkpoints meanwhile.

Checked and measured:

    own rows       acknowledged rows are found at once, at the end and after a restart
    accounts       the sum of all accounts never changes
    process        connections, fibers and descriptors are as many as before; memory stops to grow; no errors in the log
    requests       latencies of each kind
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgpack

from box.errors import BoxError, ErrorCode
from box.wire.constants import GREETING_SIZE, Key, RequestType
from box.wire.error import decode_error_body
from box.wire.packet import packet_bounds
from box.wire.row import Row, decode_row, encode_packet

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = Path(__file__).with_name("mixed.lua")
CLIENTS: Final = 50
MONEY: Final = 100 * 1000
"""The sum of all accounts: mixed.lua makes 100 accounts with 1000 each."""
ROWS: Final = 1_000_000
"""The id of the space with the clients' own rows."""
OWN_KEYS: Final = 40
"""The number of keys of one client."""
PATIENCE: Final = 60.0
"""Seconds within which each request must be answered, on a busy machine."""
SHARES: Final = (0.5, 0.99, 0.999, 1)
"""The quantiles of latency that the table shows."""
_LONG_RUN: Final = 120
"""The shortest run in seconds whose memory is checked: a shorter one is still filling its caches."""
_GROWTH: Final = 0.1
"""The share by which the memory may grow in the second half of a long run."""
_PASSING: Final = frozenset({ErrorCode.TRANSACTION_CONFLICT})
"""Errors after which a client goes on."""


class Connection:
    """A connection for one request at a time, or for a burst of equal ones.

    Its methods raise the BoxError of an error reply, and IncompleteReadError or ConnectionError when the server closes.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sync = 0

    @classmethod
    async def open(cls, path: str) -> Connection:
        connection = cls(*await asyncio.open_unix_connection(path))
        await connection._reader.readexactly(GREETING_SIZE)
        return connection

    async def ask(self, request_type: int, body: dict[Key, Any]) -> Any:
        """Send a request and return the data of its reply; pushed messages before it are skipped."""
        self.send(request_type, body)
        return await self.answer()

    def send(self, request_type: int, body: dict[Key, Any], count: int = 1) -> None:
        packed = msgpack.packb({int(key): value for key, value in body.items()})
        for _ in range(count):
            self._sync += 1
            self._writer.write(encode_packet(Row(request_type, sync=self._sync, body=packed)))

    async def answer(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            while True:
                head = await self._reader.readexactly(5)  # the length: 0xCE and four bytes
                start, stop = packet_bounds(head, 0)
                reply = decode_row(await self._reader.readexactly(stop - start))
                if reply.type != RequestType.CHUNK:
                    break
        if reply.type & 0x8000:  # the bit of error replies
            raise decode_error_body(reply.type, reply.body)
        return msgpack.unpackb(reply.body, strict_map_key=False).get(int(Key.DATA))

    async def call(self, name: str, *arguments: Any) -> Any:
        return await self.ask(RequestType.CALL, {Key.FUNCTION_NAME: name, Key.TUPLE: arguments})

    async def abort(self) -> None:
        self._writer.transport.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


def _select(limit: int, key: list[Any], index: int = 0) -> dict[Key, Any]:
    body = {Key.SPACE_ID: ROWS, Key.INDEX_ID: index, Key.LIMIT: limit, Key.OFFSET: 0}
    return body | {Key.ITERATOR: 0 if key else 2, Key.KEY: key}


class Client:
    """One of the fifty clients. `written` has the last acknowledged value of each of its own rows, by key."""

    def __init__(self, number: int, path: str, chooser: random.Random, result: Result) -> None:
        self.written: dict[int, int] = {}
        self._number = number
        self._path = path
        self._chooser = chooser
        self._result = result
        self._sequence = 0
        self._connection: Connection | None = None
        self._steps: list[tuple[int, str, Callable[[Connection], Awaitable[None]]]] = [
            (40, "replace", self._replace),
            (40, "select", self._read_own),
            (20, "transfer", self._transfer),
            (3, "sum", self._sum),
            (4, "dictionary", self._define),
            (4, "burst", self._burst),
            (2, "large select", self._select_all),
            (2, "push", self._talk),
            (3, "end", self._leave),
        ]

    async def run(self, until: float) -> None:
        weights = [weight for weight, _, _ in self._steps]
        try:
            while time.monotonic() < until:
                if self._connection is None:
                    self._connection = await Connection.open(self._path)
                [(_, name, step)] = self._chooser.choices(self._steps, weights)
                start = time.perf_counter()
                try:
                    await step(self._connection)
                except BoxError as error:
                    self._result.errors[name, error.code] += 1
                    if error.code not in _PASSING:
                        raise
                self._result.latencies[name].append(time.perf_counter() - start)
                await asyncio.sleep(self._chooser.choice((0, 0, 0.001, 0.02)))
        finally:
            if self._connection is not None:
                await self._connection.close()

    def _own_key(self) -> int:
        return self._number * 1000 + self._chooser.randrange(OWN_KEYS)

    async def _replace(self, connection: Connection) -> None:
        self._sequence += 1
        key, sequence = self._own_key(), self._sequence
        row = [key, sequence, f"text {sequence % 100}" + "x" * self._chooser.choice((10, 100, 1000))]
        await connection.ask(RequestType.REPLACE, {Key.SPACE_ID: ROWS, Key.TUPLE: row})
        self.written[key] = sequence

    async def _read_own(self, connection: Connection) -> None:
        key = self._own_key()
        rows = await connection.ask(RequestType.SELECT, _select(1, [key]))
        found = rows[0][1] if rows else None
        assert found == self.written.get(key), f"{key}: {self.written.get(key)} was acknowledged, {found} is there"

    async def _transfer(self, connection: Connection) -> None:
        source, target = self._chooser.sample(range(1, 101), 2)
        await connection.call("transfer", source, target, self._chooser.randrange(1, 50))

    async def _sum(self, connection: Connection) -> None:
        [total] = await connection.call("total")
        assert total == MONEY, f"the sum is {total}"

    async def _define(self, connection: Connection) -> None:
        self._sequence += 1
        await connection.call("define", self._number, self._sequence)

    async def _burst(self, connection: Connection) -> None:
        count = self._chooser.choice((10, 100, 300))
        connection.send(RequestType.SELECT, _select(1, [self._own_key()]), count)
        for _ in range(count):
            await connection.answer()

    async def _select_all(self, connection: Connection) -> None:
        rows = await connection.ask(RequestType.SELECT, _select(0xFFFFFFFF, [], self._chooser.randrange(2)))
        assert len(rows) <= CLIENTS * OWN_KEYS

    async def _talk(self, connection: Connection) -> None:
        [text] = await connection.call("talk", 20)
        assert len(text) == 200_000

    async def _leave(self, connection: Connection) -> None:
        """Disconnect with requests under way, replies unread and half a packet sent."""
        connection.send(RequestType.SELECT, _select(0xFFFFFFFF, []), self._chooser.randrange(20))
        connection.send(RequestType.CALL, {Key.FUNCTION_NAME: "total", Key.TUPLE: []}, self._chooser.randrange(3))
        transfer = {Key.FUNCTION_NAME: "transfer", Key.TUPLE: [1, 2, 8]}
        connection.send(RequestType.CALL, transfer, self._chooser.randrange(3))
        # The beginning of a packet of 4096 bytes, cut anywhere.
        connection._writer.write(b"\xce\x00\x00\x10\x00\x82"[: self._chooser.randrange(7)])
        await asyncio.sleep(self._chooser.choice((0, 0, 0.005)))
        self._connection = None
        if self._chooser.random() < 0.5:
            await connection.abort()
        else:
            await connection.close()


class Result:
    """Measurements: latencies in seconds by step, errors by step and code, memory and descriptors of the server."""

    def __init__(self) -> None:
        self.latencies: dict[str, list[float]] = defaultdict(list)
        self.errors: Counter[tuple[str, int]] = Counter()
        self.memory: list[tuple[float, float]] = []
        """Samples: seconds since the start, resident MB."""
        self.descriptors: list[int] = []

    def table(self) -> str:
        lines = [f"  {'step':14} {'count':>8} {'p50':>8} {'p99':>8} {'p99.9':>8} {'max':>8}  ms"]
        for name, latencies in self.latencies.items():
            latencies.sort()
            last = len(latencies) - 1
            shown = " ".join(f"{latencies[min(last, int(last * share + 1))] * 1e3:8.2f}" for share in SHARES)
            lines.append(f"  {name:14} {len(latencies):8} {shown}")
        return "\n".join(lines)

    def slope(self) -> float:
        """Return the growth of memory in MB a minute in the second half of the samples, by least squares."""
        points = self.memory[len(self.memory) // 2 :]
        if len(points) < 2:
            return 0.0
        middle = sum(x for x, _ in points) / len(points)
        mean = sum(y for _, y in points) / len(points)
        spread = sum((x - middle) ** 2 for x, _ in points)
        return 60 * sum((x - middle) * (y - mean) for x, y in points) / spread if spread else 0.0


class Server:
    """The process of the instance, which listens on the socket `path`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = str(directory / "s")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "console", str(PROGRAM), str(directory), f"unix/:{self.path}"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
        )

    async def connect(self) -> Connection:
        """Wait until the instance answers, and return a connection to it.

        Raises:
            AssertionError: the process has ended, or does not answer within `PATIENCE` seconds.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._process.poll() is None, f"the server has ended:\n{self.log[-3000:]}"
            connection: Connection | None = None
            try:
                connection = await Connection.open(self.path)
                await connection.call("report")
                return connection
            except (OSError, BoxError, asyncio.IncompleteReadError):
                assert time.monotonic() < deadline, "the server does not start"
                if connection is not None:
                    await connection.abort()
                await asyncio.sleep(0.05)

    @property
    def log(self) -> str:
        path = self.directory / "mixed.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def memory(self) -> float:
        """The resident memory of the process in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def stop(self) -> int:
        """Send SIGTERM, wait for the end and return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


async def _sample(server: Server, result: Result, start: float) -> None:
    while True:
        result.memory.append((time.monotonic() - start, server.memory))
        result.descriptors.append(server.descriptors)
        await asyncio.sleep(0.5)


async def _settled(connection: Connection, before: dict[str, Any]) -> dict[str, Any]:
    """Return the instance's report once all clients and their fibers are gone, or the last one after ten seconds."""
    deadline = time.monotonic() + 10
    while True:
        [report] = await connection.call("report")
        if report["connections"] == 1 and report["fibers"] <= before["fibers"]:
            return dict(report)
        if time.monotonic() > deadline:
            return dict(report)
        await asyncio.sleep(0.05)


async def _check_rows(connection: Connection, clients: list[Client]) -> int:
    rows = await connection.ask(RequestType.SELECT, _select(0xFFFFFFFF, []))
    found = {row[0]: row[1] for row in rows}
    expected: dict[int, int] = {}
    for client in clients:
        expected |= client.written
    assert found == expected, {key: (expected.get(key), found.get(key)) for key in found.keys() | expected.keys()}
    return len(found)


async def run(seed: int, seconds: float, directory: Path, result: Result, clients: int = CLIENTS) -> None:
    """Let clients work for `seconds`, check the instance, restart it and check it again.

    Measurements go to `result`, also when the run ends early.

    Raises:
        AssertionError: a check has failed.
    """
    server = Server(directory)
    try:
        keeper = await server.connect()
        [before] = await keeper.call("report")
        descriptors = server.descriptors
        start = time.monotonic()
        sampler = asyncio.ensure_future(_sample(server, result, start))
        crowd = [Client(number, server.path, random.Random(f"{seed} {number}"), result) for number in range(clients)]
        async with asyncio.TaskGroup() as group:
            for client in crowd:
                group.create_task(client.run(start + seconds))
        sampler.cancel()
        after = await _settled(keeper, before)
        assert after["connections"] == 1, f"connections of clients that have left: {after}"
        assert after["fibers"] <= before["fibers"], f"fibers that do not end: {before}, {after}"
        # Two more: a log file or a snapshot may be open at this moment.
        assert server.descriptors <= descriptors + 2, f"descriptors: {descriptors}, then {server.descriptors}"
        assert after["sum"] == MONEY, after
        await _check_rows(keeper, crowd)
        await keeper.close()
        code = server.stop()
        assert code == 0, f"exit code {code}"
        errors = [line for line in server.log.splitlines() if " E> " in line or "Traceback" in line]
        unexpected = [line for line in errors if "conflict" not in line]
        assert not unexpected, unexpected[:5]
        server = Server(directory)
        keeper = await server.connect()
        rows = await _check_rows(keeper, crowd)
        [again] = await keeper.call("report")
        assert again["sum"] == MONEY, again
        await keeper.close()
        assert server.stop() == 0
        memory = [size for _, size in result.memory]
        print(
            f"  memory: {memory[0]:.0f} MB at the beginning, {max(memory):.0f} MB at most, {memory[-1]:.0f} MB at the "
            f"end, {result.slope():+.2f} MB a minute in the second half\n"
            f"  descriptors: {descriptors} before, {max(result.descriptors)} at most; "
            f"fibers: {before['fibers']} before, {after['fibers']} after; rows: {rows}; the sum is right"
        )
        if seconds >= _LONG_RUN:
            grown = result.slope() * seconds / 120  # half of the run, in minutes
            assert grown < _GROWTH * memory[-1], f"the memory grows: {grown:.0f} MB in half of the time"
    except BaseException:
        server.kill()
        raise


def run_campaign(seed: int, size: int) -> bool:
    """Let the clients work for `size` seconds, print failures and a summary, and return True if nothing has failed."""
    with tempfile.TemporaryDirectory(prefix="mixed") as name:
        result = Result()
        try:
            asyncio.run(run(seed, size, Path(name), result))
        except BaseException as error:
            problems = error.exceptions if isinstance(error, BaseExceptionGroup) else (error,)
            for problem in problems[:3]:
                print(f"mixed, seed {seed}: {type(problem).__name__}: {problem}", flush=True)
            when, _ = result.memory[-1] if result.memory else (0.0, 0.0)
            print(f"mixed, seed {seed}: {len(problems)} failures after {when:.0f} s; {result.slope():+.2f} MB a minute")
            if not isinstance(error, Exception):
                raise
            return False
    steps = sum(map(len, result.latencies.values()))
    conflicts = sum(result.errors.values())
    print(f"{result.table()}\nmixed, seed {seed}: {CLIENTS} clients, {size} s, {steps} steps, {conflicts} conflicts")
    return True
