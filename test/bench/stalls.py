"""Measures how long heavy work keeps other clients waiting, on Lunabox and Tarantool: `python -m test.bench.stalls`.

A client pings a server a thousand times a second, while a console connection asks it for heavy work. The table has for
each kind of work the longest time of a ping (the stall), the duration of the work, and the peak of the server's memory.
A busy machine has pauses of its own: the row of the busy loop shows the longest one, without any server.
"""

from __future__ import annotations

import argparse
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgpack

from test.bench.__main__ import Console, compiled_modules, free_port, tarantool_command

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_START_TIMEOUT = 300.0
_PING = b"\xce\x00\x00\x00\x06\x82\x00\x40\x01\x01\x80"
"""A request of six bytes: a header with type PING (0x40) and sync 1, an empty body."""

PHASES = (
    ("nothing", "require('fiber').sleep(1)"),
    ("200,000 replaces in 1,000 transactions", "fill(200000)"),
    ("create_index, unsigned", "box.space.stalls:create_index('id', {parts = {{1, 'unsigned'}}}) return true"),
    ("drop of that index", "box.space.stalls.index.id:drop()"),
    (
        "create_index, string",
        "box.space.stalls:create_index('name', {parts = {{2, 'string'}}, unique = false}) return true",
    ),
    ("select of 100,000 in Lua", "return #box.space.stalls:select({}, {limit = 100000})"),
    ("pairs over 100,000 in Lua", "return read_all(100000)"),
    ("collectgarbage()", "collectgarbage()"),
    ("box.snapshot()", "box.snapshot()"),
)
LAST_PHASES = (
    ("truncate", "box.space.stalls:truncate() require('fiber').sleep(1)"),
    ("drop", "box.space.stalls:drop() require('fiber').sleep(1)"),
)


@dataclass(slots=True)
class Stall:
    """The figures of one phase: the longest ping and the duration in seconds, the peak of memory in bytes, a remark."""

    longest: float
    duration: float
    memory: int
    note: str = ""


class Pinger(threading.Thread):
    """A thread that pings a server once a millisecond, and keeps the longest time without an answer."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._longest = 0.0
        self._sent = 0.0
        self._stops = False
        self.start()

    def run(self) -> None:
        while not self._stops:
            try:
                self._ping_until_closed()
            except OSError:
                time.sleep(0.001)

    def _ping_until_closed(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not client.recv(128):
                return
            while not self._stops:
                self._sent = time.perf_counter()
                client.sendall(_PING)
                size = msgpack.unpackb(_receive(client, 5))
                _receive(client, size)
                self._longest = max(self._longest, time.perf_counter() - self._sent)
                self._sent = 0.0
                time.sleep(0.001)

    def take(self) -> float:
        """Return the longest time of a ping since the last call, in seconds; one under way counts, too."""
        longest, self._longest = self._longest, 0.0
        return max(longest, time.perf_counter() - self._sent if self._sent else 0.0)

    def stop(self) -> None:
        self._stops = True
        self.join()


def _receive(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = client.recv(size - len(data))
        if not part:
            raise OSError("closed")
        data += part
    return data


class Server:
    """A server process, a client of its console, and the thread that pings it."""

    def __init__(self, executable: list[str], directory: Path, master: str | None = None) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.port = free_port()
        path = str(directory / "c")
        Path(path).unlink(missing_ok=True)
        arguments = [str(directory), f"127.0.0.1:{self.port}", path, *([master] if master else [])]
        self.process = subprocess.Popen([*executable, str(_HERE / "stalls.lua"), *arguments], cwd=_ROOT)
        self.pinger = Pinger(self.port)
        self.console = self._connect(path)

    def _connect(self, path: str) -> Console:
        deadline = time.monotonic() + _START_TIMEOUT
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                return Console(path)
            except OSError:
                time.sleep(0.001)
        raise SystemExit("the server did not start")

    def wait_running(self) -> None:
        """Wait until the server accepts writes and has defined its functions."""
        while "true" not in self.console.ask("return is_ready and box.info.status == 'running'"):
            time.sleep(0.01)

    def measure(self, work: Callable[[], object]) -> Stall:
        """Measure the server while `work` asks it for something and waits for the end.

        Raises:
            SystemExit: the answer is an error.
        """
        self.pinger.take()
        self._reset_memory()
        start = time.perf_counter()
        answer = work()
        duration = time.perf_counter() - start
        time.sleep(0.01)
        if "error:" in str(answer):
            raise SystemExit(str(answer))
        return Stall(self.pinger.take(), duration, self._memory())

    def _reset_memory(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # 5 resets the peak, VmHWM

    def _memory(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def log_lines(self, text: str) -> int:
        """Return how often the server's log contains a text."""
        log = self.directory / "stalls.log"
        return log.read_text(errors="replace").count(text) if log.exists() else 0

    def stop(self) -> float:
        """Send SIGTERM and return the seconds until the process has ended."""
        start = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(_START_TIMEOUT)
        self.pinger.stop()
        return time.perf_counter() - start


@contextmanager
def _running(executable: list[str], directory: Path, master: str | None = None) -> Iterator[Server]:
    server = Server(executable, directory, master)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


def measure(executable: list[str], root: Path, count: int) -> dict[str, Stall]:
    """Measure all phases on one program, with `count` tuples."""
    found: dict[str, Stall] = {}
    first = root / "first"
    with _running(executable, first) as server:
        server.wait_running()
        server.console.ask(f"fill({count})")
        for name, command in PHASES:
            found[name] = server.measure(lambda command=command: server.console.ask(command))  # type: ignore[misc]
        _measure_join(executable, root, server, found)
    found["SIGTERM during recovery"] = _measure_signal(executable, first)
    with _running(executable, first) as server:
        found["recovery"] = server.measure(server.wait_running)
        found["recovery"].note = f"{server.log_lines('rows processed')} lines of progress"
        for name, command in LAST_PHASES:
            server.console.ask(f"fill({count})")
            found[name] = server.measure(lambda command=command: server.console.ask(command))  # type: ignore[misc]
    return found


def _measure_join(executable: list[str], root: Path, master: Server, found: dict[str, Stall]) -> None:
    with _running(executable, root / "second", f"127.0.0.1:{master.port}") as replica:
        joined: list[Stall] = []

        def join() -> None:
            joined.append(replica.measure(replica.wait_running))

        found["join, the master"] = master.measure(join)
        found["join, the replica"] = joined[0]
        joined[0].note = f"{replica.log_lines('rows received')} lines of progress"


def _measure_signal(executable: list[str], directory: Path) -> Stall:
    """Send SIGTERM to a server in the middle of its recovery, and measure the time until it has ended."""
    before = (directory / "stalls.log").read_text(errors="replace").count("recovering from")
    server = Server(executable, directory)
    deadline = time.monotonic() + _START_TIMEOUT
    while server.log_lines("recovering from") == before and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.2)
    duration = server.stop()
    return Stall(duration, duration, 0, f"exit code {server.process.returncode}")


# --- an embedded node ------------------------------------------------------------------------------------------------

_EMBEDDED = """
import asyncio, sys, time
from box import Node
from box.data.codec import pack

FILL = '''
local first = ...
box.begin()
for id = first, first + 9999 do
    s:replace{id, ('name %d'):format(id), id / 2}
end
box.commit()
'''

async def main(count):
    longest, last = [0.0], [time.perf_counter()]
    async def tick():
        while True:
            await asyncio.sleep(0.0005)
            now = time.perf_counter()
            longest[0] = max(longest[0], now - last[0])
            last[0] = now
    async with Node(None, wal_mode="none", memtx_memory=2 << 30) as node:
        await node.eval("s = box.schema.space.create('s') s:create_index('pk')")
        for first in range(0, count, 10000):
            await node.eval(FILL, first)
        ticker = asyncio.ensure_future(tick())
        await asyncio.sleep(0.1)
        longest[0] = 0.0
        start = time.perf_counter()
        rows = await node.space["s"].select(limit=100000)
        await asyncio.sleep(0.001)
        print(longest[0], time.perf_counter() - start, len(rows))
        ticker.cancel()

asyncio.run(main(int(sys.argv[1])))
"""


def measure_embedded(count: int) -> Stall:
    """Measure how long a select of 100,000 tuples keeps the event loop of a Python program from its other tasks."""
    command = [sys.executable, "-c", _EMBEDDED, str(count)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    longest, duration, rows = done.stdout.split()
    return Stall(float(longest), float(duration), 0, f"{rows} tuples")


# --- the machine ------------------------------------------------------------------------------------------------------

_BUSY = """
import time
end, longest, last = time.perf_counter() + 10, 0.0, time.perf_counter()
while last < end:
    now = time.perf_counter()
    longest, last = max(longest, now - last), now
print(longest)
"""


def measure_machine() -> Stall:
    """Measure the longest pause of two busy loops, as many processes as a ping has: the machine's own stalls."""
    start = time.perf_counter()
    loops = [subprocess.Popen([sys.executable, "-c", _BUSY], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    pauses = [float(loop.communicate()[0]) for loop in loops]
    return Stall(max(pauses), time.perf_counter() - start, 0, "the machine's own pauses")


# --- the table --------------------------------------------------------------------------------------------------------


def _table(ours: dict[str, Stall], others: dict[str, Stall]) -> str:
    lines = [
        "| phase | stall, ms | Tarantool | seconds | Tarantool | memory, MB | Tarantool | |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name in ours | others:
        mine, theirs = ours.get(name), others.get(name)
        cells = [f"{stall.longest * 1e3:.1f}" if stall else "" for stall in (mine, theirs)] + [
            f"{stall.duration:.2f}" if stall else "" for stall in (mine, theirs)
        ]
        cells += [f"{stall.memory / 1e6:.0f}" if stall and stall.memory else "" for stall in (mine, theirs)]
        notes = "; Tarantool ".join(stall.note for stall in (mine, theirs) if stall and stall.note)
        lines.append(f"| {name} | {' | '.join(cells)} | {notes} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m test.bench.stalls", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the 2,000,000 tuples")
    parser.add_argument(
        "--only",
        choices=("node", "tarantool", "embedded"),
        nargs="*",
        default=["node", "tarantool", "embedded"],
        help="measure these alone",
    )
    args = parser.parse_args()
    count = int(2_000_000 * args.scale)
    tarantool = tarantool_command()
    results: list[dict[str, Stall]] = [{}, {}]
    with compiled_modules():
        for name, executable, found in (
            ("node", [sys.executable, "-m", "console"], results[0]),
            ("tarantool", list(tarantool or ()), results[1]),
        ):
            if name in args.only and executable:
                with tempfile.TemporaryDirectory(prefix="stalls") as root:
                    found |= measure(executable, Path(root), count)
        results[0]["a busy loop without a server"] = measure_machine()
        if "embedded" in args.only:
            results[0]["select of 100,000, embedded"] = measure_embedded(count)
    print(_table(*results))


if __name__ == "__main__":
    main()
