"""`make bench`: this node against the `tarantool` executable on PATH, measured in one run, one row a figure.

Times depend on the machine; the ratio to the peer is what counts. Without the peer its column stays empty. Nothing
here fails because of a time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row. `higher_is_better` for rates; `aim` is the ratio that this node wants to keep."""

    key: str
    title: str
    unit: str
    aim: str
    higher_is_better: bool = False


FIGURES = (
    Figure("iproto_replace_none", "IPROTO replace, 1,000 in flight, wal_mode none", "1/s", ">= 1", True),
    Figure("iproto_select_none", "IPROTO select, 1,000 in flight", "1/s", ">= 1", True),
    Figure("iproto_replace_write", "IPROTO replace, 1,000 in flight, wal_mode write", "1/s", ">= 1", True),
    Figure("replace", "s:replace{id, name, value}, no WAL", "us", "<= 4"),
    Figure("get", "s:get(id)", "us", "<= 3"),
    Figure("get_table", "s:get{id}", "us", ""),
    Figure("pairs", "s:pairs(), a tuple", "us", ""),
    Figure("select", "s:select(), a tuple", "us", ""),
    Figure("replace_one_fiber", "s:replace, one fiber, wal_mode write", "us", "<= 1"),
    Figure("replace_100_fibers", "s:replace, 100 fibers, wal_mode write", "us", ""),
    Figure("snapshot", "snapshot of all tuples", "s", ""),
    Figure("recovery", "start-up with all tuples to running", "s", ""),
    Figure("memory", "memory a tuple of (unsigned, string, double)", "bytes", "<= 3"),
    Figure("startup", "start-up of an empty node to running", "s", "<= 0.5 s"),
    Figure("console", "console answer to `1 + 1`", "ms", "<= 20 ms"),
)

Values = dict[str, float]


def _run_lua(executable: list[str], directory: Path, mode: str, count: int) -> Values:
    command = [*executable, str(_HERE / "inprocess.lua"), str(directory), mode, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    pairs = (line.split() for line in done.stdout.splitlines())
    return {name: float(value) for name, value in pairs}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class _Console:
    """A client of the text console."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        greeting = b""
        while len(greeting) < 128:
            greeting += self._socket.recv(128 - len(greeting))

    def ask(self, command: str) -> str:
        self._socket.sendall(command.encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n...\n"):
            answer += self._socket.recv(65536)
        return answer.decode()

    def close(self) -> None:
        self._socket.close()


@contextmanager
def _server(executable: list[str], directory: Path, mode: str) -> Iterator[tuple[str, _Console, float]]:
    """A running server: its address, a console and the seconds it took to be ready."""
    uri, path = f"127.0.0.1:{_free_port()}", str(directory / "c")
    directory.mkdir(exist_ok=True)
    start = time.perf_counter()
    process = subprocess.Popen([*executable, str(_HERE / "server.lua"), str(directory), uri, mode, path])
    try:
        console = _connect(path, process)
        while "running" not in console.ask("box.info.status"):
            time.sleep(0.002)
        yield uri, console, time.perf_counter() - start
        console.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def _connect(path: str, process: subprocess.Popen[bytes]) -> _Console:
    while process.poll() is None:
        try:
            return _Console(path)
        except OSError:
            time.sleep(0.002)
    raise SystemExit("the server did not start")


def _client(uri: str, requests: int) -> Values:
    command = [sys.executable, "-m", "test.bench.client", uri, str(requests), "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True, cwd=_ROOT)
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def _console_answer(console: _Console) -> float:
    """Milliseconds, the median of 200."""
    times = []
    for _ in range(200):
        start = time.perf_counter()
        console.ask("1 + 1")
        times.append(time.perf_counter() - start)
    return sorted(times)[100] * 1e3


def _measure(executable: list[str], root: Path, scale: float, wanted: Callable[[str], bool]) -> Values:
    """All figures of one executable."""
    values: Values = {}
    operations, tuples, requests = int(200_000 * scale), int(1_000_000 * scale), int(100_000 * scale)
    for mode, count in (("data", operations), ("journal", operations // 10)):
        if wanted(mode):
            (root / mode).mkdir()
            values |= _run_lua(executable, root / mode, mode, count)
    if wanted("fill"):
        (root / "fill").mkdir()
        values |= _run_lua(executable, root / "fill", "fill", tuples)
        start = time.perf_counter()
        _run_lua(executable, root / "fill", "recover", tuples)
        values["recovery"] = time.perf_counter() - start
    if wanted("iproto"):
        with _server(executable, root / "none", "none") as (uri, console, startup):
            values |= {"startup": startup, "console": _console_answer(console)}
            for name, rate in _client(uri, requests).items():
                values[f"iproto_{name}_none"] = rate
        with _server(executable, root / "write", "write") as (uri, _, startup):
            values["startup"] = min(values["startup"], startup)
            values["iproto_replace_write"] = _client(uri, requests)["replace"]
    return values


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _table(ours: Values, peers: Values) -> str:
    lines = ["| figure | unit | this node | peer | ratio | aim |", "|---|---|---:|---:|---:|---|"]
    for figure in FIGURES:
        mine, theirs = ours.get(figure.key), peers.get(figure.key)
        if mine is None:
            continue
        ratio = f"{mine / theirs:.2f}" if theirs else ""
        lines.append(f"| {figure.title} | {figure.unit} | {_text(mine)} | {_text(theirs)} | {ratio} | {figure.aim} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of operations")
    parser.add_argument("--only", nargs="*", help="groups: data journal fill iproto")
    args = parser.parse_args()

    def wanted(group: str) -> bool:
        return not args.only or group in args.only

    results: list[Values] = []
    for executable in ([sys.executable, "-m", "console"], _peer()):
        with tempfile.TemporaryDirectory(prefix="bench") as root:
            results.append(_measure(executable, Path(root), args.scale, wanted) if executable else {})
    print(_table(*results))


def _peer() -> list[str]:
    path = os.environ.get("LUNABOX_PEER") or shutil.which("tarantool")
    return [path] if path else []


if __name__ == "__main__":
    main()
