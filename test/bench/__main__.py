"""`make bench`: measures Lunabox and Tarantool in one run, and prints a table with one row a figure.

The two take turns in each group of figures and each round, and the best value of all rounds counts, because other work
on the machine only makes values worse. Times depend on the machine, ratios hardly. Tarantool is the executable
`LUNABOX_TARANTOOL`, or `tarantool` on PATH; without it the column stays empty. No time makes the run fail.
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
    """One row of the table. `aim` is the wanted ratio to Tarantool, or a wanted value if it has a unit."""

    key: str
    title: str
    unit: str
    aim: str = ""
    higher_is_better: bool = False

    def better(self, one: float, other: float) -> float:
        return max(one, other) if self.higher_is_better else min(one, other)


FIGURES = (
    Figure("iproto_replace_none", "IPROTO replace, 1,000 in flight, wal_mode none", "1/s", ">= 1", True),
    Figure("iproto_replace_write", "IPROTO replace, 1,000 in flight, wal_mode write", "1/s", ">= 1", True),
    Figure("iproto_select_none", "IPROTO select, 1,000 in flight", "1/s", ">= 1", True),
    Figure("iproto_pipelined_replace_none", "IPROTO replace, 1,000 a system call, wal_mode none", "1/s", "", True),
    Figure("iproto_pipelined_replace_write", "IPROTO replace, 1,000 a system call, wal_mode write", "1/s", "", True),
    Figure("iproto_pipelined_select_none", "IPROTO select, 1,000 a system call", "1/s", "", True),
    Figure("iproto_update_none", "IPROTO update, 1,000 in flight, wal_mode none", "1/s", "", True),
    Figure("iproto_call_none", "IPROTO call of echo(), 1,000 in flight", "1/s", "", True),
    Figure("iproto_call_replace_none", "IPROTO call of s:replace, 1,000 in flight, wal_mode none", "1/s", "", True),
    Figure("iproto_call_replace_write", "IPROTO call of s:replace, 1,000 in flight, wal_mode write", "1/s", "", True),
    Figure(
        "iproto_call_goes_on_write", "IPROTO call that goes on after s:replace, 1,000 in flight, write", "1/s", "", True
    ),
    Figure("iproto_call_read_write", "IPROTO call of s:replace, then s:get, 1,000 in flight, write", "1/s", "", True),
    Figure("iproto_eval_none", "IPROTO eval, 1,000 in flight", "1/s", "", True),
    Figure("get", "s:get(id)", "us", "<= 3"),
    Figure("get_table", "s:get{id}", "us", "<= 3"),
    Figure("pairs", "s:pairs(), a tuple", "us"),
    Figure("select", "s:select(), a tuple", "us"),
    Figure("replace", "s:replace{id, name, value}, no WAL", "us", "<= 4"),
    Figure("update", "s:update(id, {{'=', 2, text}}), no WAL", "us"),
    Figure("update_two", "s:update with two operations, no WAL", "us"),
    Figure("upsert", "s:upsert of a tuple that is there, no WAL", "us"),
    Figure("delete_insert", "s:delete(id) and s:insert, no WAL, the pair", "us"),
    Figure("transaction", "s:replace in a transaction of 10, no WAL, a statement", "us"),
    Figure("replace_secondary", "s:replace with a secondary index, no WAL", "us"),
    Figure("replace_one_fiber", "s:replace, one fiber, wal_mode write", "us", "<= 1"),
    Figure("replace_100_fibers", "s:replace, 100 fibers, wal_mode write", "us"),
    Figure("snapshot", "snapshot of all tuples", "s"),
    Figure("recovery", "start-up with all tuples to running", "s"),
    Figure("memory", "memory a tuple of (unsigned, string, double)", "bytes", "<= 3"),
    Figure("startup", "start-up of an empty node to running", "s", "<= 0.5 s"),
    Figure("console", "console answer to `1 + 1`", "ms", "<= 20 ms"),
)

Values = dict[str, float]


# --- programs -------------------------------------------------------------------------------------------------------


def _run_lua(executable: list[str], directory: Path, mode: str, count: int) -> Values:
    directory.mkdir(exist_ok=True)
    command = [*executable, str(_HERE / "inprocess.lua"), str(directory), mode, str(count)]
    return printed(command)


def _client(uri: str, requests: int, *names: str) -> Values:
    return printed([sys.executable, "-m", "test.bench.client", uri, str(requests), "1000", *names])


def _pipelined(uri: str, requests: int, *names: str) -> Values:
    return printed([sys.executable, "-m", "test.bench.pipelined", uri, str(requests), *names])


def printed(command: list[str]) -> Values:
    """Run a program and return the values that it prints, one `NAME VALUE` a line.

    Raises:
        SystemExit: its exit code is not 0.
    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, cwd=_ROOT)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def free_port() -> int:
    """Return a TCP port of the loopback address that is free now; another program may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Console:
    """A blocking client of a server's text console, over a UNIX socket."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        greeting = b""
        while len(greeting) < 128:  # two lines of 64 bytes
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
def server(executable: list[str], directory: Path, wal_mode: str) -> Iterator[tuple[str, Console, float]]:
    """Run a server for this context; yields its address, a console and the seconds from its start to "running"."""
    uri, path = f"127.0.0.1:{free_port()}", str(directory / "c")
    directory.mkdir()
    start = time.perf_counter()
    process = subprocess.Popen([*executable, str(_HERE / "server.lua"), str(directory), uri, wal_mode, path], cwd=_ROOT)
    try:
        console = connect(path, process)
        while "running" not in console.ask("box.info.status"):
            time.sleep(0.002)
        yield uri, console, time.perf_counter() - start
        console.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def connect(path: str, process: subprocess.Popen[bytes]) -> Console:
    """Wait until a server that is starting accepts a connection to its console, and return the client.

    Raises:
        SystemExit: the server has ended.
    """
    while process.poll() is None:
        try:
            return Console(path)
        except OSError:
            time.sleep(0.002)
    raise SystemExit("the server did not start")


# --- groups of figures ----------------------------------------------------------------------------------------------


def _data(executable: list[str], root: Path, scale: float) -> Values:
    return _run_lua(executable, root, "data", int(200_000 * scale))


def _journal(executable: list[str], root: Path, scale: float) -> Values:
    return _run_lua(executable, root, "journal", int(50_000 * scale))


def _fill(executable: list[str], root: Path, scale: float) -> Values:
    tuples = int(1_000_000 * scale)
    values = _run_lua(executable, root, "fill", tuples)
    start = time.perf_counter()
    _run_lua(executable, root, "recover", tuples)
    return values | {"recovery": time.perf_counter() - start}


_PIPELINED = {"none": ("replace", "select"), "write": ("replace",)}


def _iproto(executable: list[str], root: Path, scale: float) -> Values:
    requests = int(100_000 * scale)
    values: Values = {}
    for wal_mode, names in (
        ("none", ("replace", "select", "update", "call", "call_replace", "eval")),
        ("write", ("replace", "call_replace", "call_goes_on", "call_read")),
    ):
        with server(executable, root / wal_mode, wal_mode) as (uri, console, startup):
            values["startup"] = min(values.get("startup", startup), startup)
            values["console"] = _console_answer(console)
            rates = _client(uri, requests, *names) | _pipelined(uri, 5 * requests, *_PIPELINED[wal_mode])
        values |= {f"iproto_{name}_{wal_mode}": rate for name, rate in rates.items()}
    return values


def _console_answer(console: Console) -> float:
    """Return the median time of 200 answers in milliseconds."""
    times = []
    for _ in range(200):
        start = time.perf_counter()
        console.ask("1 + 1")
        times.append(time.perf_counter() - start)
    return sorted(times)[100] * 1e3


_GROUPS: dict[str, Callable[[list[str], Path, float], Values]] = {
    "data": _data,
    "journal": _journal,
    "fill": _fill,
    "iproto": _iproto,
}


def _measure(group: str, executables: list[list[str]], scale: float, rounds: int) -> list[Values]:
    """Measure a group with all executables in turns; return the best values of each."""
    best: list[Values] = [{} for _ in executables]
    for _ in range(rounds):
        for executable, values in zip(executables, best, strict=True):
            with tempfile.TemporaryDirectory(prefix="bench") as root:
                found = _GROUPS[group](executable, Path(root), scale)
            for figure in FIGURES:
                if figure.key in found:
                    new = found[figure.key]
                    values[figure.key] = figure.better(values.get(figure.key, new), new)
    return best


# --- the table ------------------------------------------------------------------------------------------------------


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _table(ours: Values, others: Values) -> str:
    lines = ["| figure | unit | this node | Tarantool | ratio | aim |", "|---|---|---:|---:|---:|---|"]
    for figure in FIGURES:
        mine, theirs = ours.get(figure.key), others.get(figure.key)
        if mine is None:
            continue
        ratio = f"{mine / theirs:.2f}" if theirs else ""
        lines.append(f"| {figure.title} | {figure.unit} | {_text(mine)} | {_text(theirs)} | {ratio} | {figure.aim} |")
    return "\n".join(lines)


@contextmanager
def compiled_modules() -> Iterator[None]:
    """Give the processes of this context a common cache of compiled modules, filled before the first is measured."""
    with tempfile.TemporaryDirectory(prefix="bench") as cache:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = cache
        subprocess.run([sys.executable, "-m", "console", "-e", "local cfg = box.cfg"], cwd=_ROOT, check=True)
        yield


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the number of operations")
    parser.add_argument("--rounds", type=int, default=3, help="how often each group is measured")
    parser.add_argument("--only", nargs="*", choices=_GROUPS, default=list(_GROUPS), help="measure these groups alone")
    args = parser.parse_args()
    tarantool = tarantool_command()
    executables = [[sys.executable, "-m", "console"], *([list(tarantool)] if tarantool else [])]
    results: list[Values] = [{} for _ in range(2)]
    with compiled_modules():
        for group in args.only:
            for values, measured in zip(results, _measure(group, executables, args.scale, args.rounds), strict=False):
                values |= measured
    print(_table(*results))


def tarantool_command() -> tuple[str, ...] | None:
    """Return the command of Tarantool: the variable `LUNABOX_TARANTOOL`, else `tarantool` on PATH, else None."""
    path = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
    return (path,) if path else None


if __name__ == "__main__":
    main()
