"""`python -m test.bench.replication`: measures the speed of replication, for Lunabox and Tarantool in one run.

Master and replica run the same program; `fetch` is also measured with a master of the other program. Programs take
turns, and the best value of all rounds counts. Tarantool is the executable LUNABOX_TARANTOOL, or `tarantool` on PATH.
No time makes the run fail.

```
fetch      a replica that was disconnected fetches transactions of one row each from its master's files
catch_up   a replica that lacks the last 1,000 rows of a large log file fetches them
join       an empty replica joins 1,000,000 tuples with two indexes, until it is `running`
lag        the age of the newest row on the replica, while the master writes 10,000 rows a second
commit     synchronous commits of 100 fibers: quorum 1 without a replica, quorum 2 with one and with two replicas
large      the time from a transaction of 400,000 rows until the replica has it
mesh       processor time of a node, of five that fetch from each other, idle and with 1,000 rows a second
```
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from test.bench.__main__ import Console, compiled_modules, connect, free_port, tarantool_command

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
OWN = (sys.executable, "-m", "console")
_DEADLINE = 600.0
Values = dict[str, float]
Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table."""

    key: str
    title: str
    unit: str
    higher_is_better: bool = False


FIGURES = (
    Figure("fetch", "transactions of one row, fetched and applied", "1/s", True),
    Figure("fetch_from_tarantool", "transactions of one row, fetched from a master of the other program", "1/s", True),
    Figure("catch_up", "fetch of the last 1,000 rows of a log with 300,000", "s"),
    Figure("join", "join of 1,000,000 tuples with two indexes", "s"),
    Figure("lag_95", "age of the newest row at 10,000 rows a second, 95th percentile", "ms"),
    Figure("lag_max", "age of the newest row at 10,000 rows a second, maximum", "ms"),
    Figure("commit_alone", "synchronous commits, 100 fibers, one node, quorum 1", "1/s", True),
    Figure("commit", "synchronous commits, 100 fibers, quorum 2", "1/s", True),
    Figure("commit_three", "synchronous commits, 100 fibers, three nodes, quorum 2", "1/s", True),
    Figure("large", "one transaction of 400,000 rows, until the replica has it", "s"),
    Figure("large_turn", "one transaction of 400,000 rows, longest pause of fibers on the master", "ms"),
    Figure("large_turn_replica", "one transaction of 400,000 rows, longest pause of fibers on the replica", "ms"),
    Figure("mesh_idle", "five nodes in a mesh without rows: processor time of a node", "% of a core"),
    Figure("mesh", "five nodes in a mesh, 1,000 rows a second: processor time of a node", "% of a core"),
)


class Member:
    """The process of a node that runs replication.lua, with a client of its console."""

    def __init__(self, command: Command, directory: Path, *, uri: str = "", sources: tuple[str, ...] = ()) -> None:
        self.uri = uri or f"127.0.0.1:{free_port()}"
        self.directory = directory
        self._command = command
        self._sources = sources
        self._process: subprocess.Popen[bytes] | None = None
        self._console: Console | None = None

    def start(self, *, quorum: int | None = None, waits: bool = True) -> None:
        """Start the process and, if `waits`, wait until the node is `running`; `quorum` is its connect quorum."""
        self.directory.mkdir(exist_ok=True)
        console = self.directory / "console"
        console.unlink(missing_ok=True)
        command = [*self._command, str(_HERE / "replication.lua"), str(self.directory), self.uri, str(console)]
        environment = dict(os.environ)
        if quorum is not None:
            environment["BENCH_QUORUM"] = str(quorum)
        self._process = subprocess.Popen(
            [*command, *self._sources], cwd=_ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if waits:
            self.wait_console()

    def wait_console(self) -> None:
        assert self._process is not None
        self._console = connect(str(self.directory / "console"), self._process)
        self.until("box.info.status == 'running'")

    def ask(self, command: str) -> str:
        """Run a command at the console and return its answer.

        Raises:
            RuntimeError: the command has failed.
        """
        assert self._console is not None
        answer = self._console.ask(command)
        if "- error:" in answer:
            raise RuntimeError(f"{command}: {answer}")
        return answer

    def numbers(self, expression: str) -> list[float]:
        return [float(line[2:]) for line in self.ask(f"return {expression}").splitlines() if line.startswith("- ")]

    def number(self, expression: str) -> float:
        return self.numbers(expression)[0]

    def until(self, condition: str, pause: float = 0.005) -> None:
        deadline = time.monotonic() + _DEADLINE
        while "true" not in self.ask(f"return {condition}"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.uri}: never true: {condition}")
            time.sleep(pause)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        process, self._process = self._process, None
        if self._console is not None:
            self._console.close()
            self._console = None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def _pair(master: Command, replica: Command, root: Path) -> Iterator[tuple[Member, Member]]:
    """Run a master for this context; yields it and a replica of it that has not started yet."""
    one = Member(master, root / "master")
    two = Member(replica, root / "replica", sources=(one.uri,))
    try:
        one.start()
        one.ask("found()")
        yield one, two
    finally:
        two.stop()
        one.stop()


def _wait_lsn(master: Member, replica: Member, pause: float = 0.005) -> None:
    lsn = int(master.number("box.info.lsn"))
    replica.until(f"(box.info.vclock[1] or 0) >= {lsn}", pause)


def fetch(master: Command, replica: Command, root: Path, scale: float) -> Values:
    count = int(300_000 * scale)
    with _pair(master, replica, root) as (one, two):
        two.start()
        _wait_lsn(one, two)
        two.ask("box.cfg{replication = {}}")
        one.ask(f"fill(1, {count}, 1000)")
        start = time.perf_counter()
        two.ask(f"box.cfg{{replication = '{one.uri}', replication_connect_quorum = 0}}")
        _wait_lsn(one, two)
        return {"fetch": count / (time.perf_counter() - start)}


def catch_up(master: Command, replica: Command, root: Path, scale: float) -> Values:
    """Measure a replica that lacks the last rows; each row is a block of its own in the file, as in most programs."""
    count = int(300_000 * scale)
    with _pair(master, replica, root) as (one, two):
        two.start()
        one.ask(f"fill(1, {count}, 100)")
        _wait_lsn(one, two)
        two.ask("box.cfg{replication = {}}")
        one.ask("fill(1, 1000, 1)")
        start = time.perf_counter()
        two.ask(f"box.cfg{{replication = '{one.uri}', replication_connect_quorum = 0}}")
        _wait_lsn(one, two)
        return {"catch_up": time.perf_counter() - start}


def join(master: Command, replica: Command, root: Path, scale: float) -> Values:
    with _pair(master, replica, root) as (one, two):
        one.ask(f"fill_two({int(1_000_000 * scale)})")
        start = time.perf_counter()
        two.start()
        _wait_lsn(one, two)
        return {"join": time.perf_counter() - start}


def lag(master: Command, replica: Command, root: Path, scale: float) -> Values:
    with _pair(master, replica, root) as (one, two):
        two.start()
        seconds = max(2.0, 6 * scale)
        one.ask(f"require('fiber').create(trickle, 10000, {seconds + 1})")
        two.until("box.space.plain ~= nil and box.space.plain:len() > 5000")
        percentile, greatest = two.numbers(f"watch_lag({seconds - 1})")
        return {"lag_95": percentile * 1e3, "lag_max": greatest * 1e3}


def commit(master: Command, replica: Command, root: Path, scale: float) -> Values:
    """Measure a master alone, with one replica, and with two."""
    with _pair(master, replica, root) as (one, two):
        commits = f"commit_synchronously(100, {max(1.0, 4 * scale)})"
        alone = one.number(commits)
        two.start()
        _wait_lsn(one, two)
        one.ask("box.cfg{replication_synchro_quorum = 2, replication_synchro_timeout = 60}")
        with_one = one.number(commits)
        third = Member(replica, root / "third", sources=(one.uri,))
        try:
            third.start()
            _wait_lsn(one, third)
            return {"commit_alone": alone, "commit": with_one, "commit_three": one.number(commits)}
        finally:
            third.stop()


def large(master: Command, replica: Command, root: Path, scale: float) -> Values:
    with _pair(master, replica, root) as (one, two):
        two.start()
        _wait_lsn(one, two)
        one.ask("watch_turns()")
        two.ask("watch_turns()")
        start = time.perf_counter()
        one.ask(f"fill_at_once({int(400_000 * scale)})")
        one.ask("longest_turn()")  # resets the measure: the statements of the transaction do not count
        _wait_lsn(one, two, 0.05)
        return {
            "large": time.perf_counter() - start,
            "large_turn": one.number("longest_turn()") * 1e3,
            "large_turn_replica": two.number("longest_turn()") * 1e3,
        }


def mesh(command: Command, _: Command, root: Path, scale: float) -> Values:
    uris = [f"127.0.0.1:{free_port()}" for _ in range(5)]
    members = [Member(command, root / str(n), uri=uri, sources=tuple(uris)) for n, uri in enumerate(uris)]
    with ExitStack() as stack:
        for member in members:
            stack.callback(member.stop)
            member.start(waits=False)
        for member in members:
            member.wait_console()
        founder = next(member for member in members if "true" in member.ask("return box.info.id == 1"))
        founder.ask("found()")
        for member in members:
            member.until("box.space.two ~= nil and box.space.two.index.name ~= nil")
        seconds = max(3.0, 6 * scale)
        idle = _share_of_a_core(members, seconds)
        for member in members:
            member.ask(f"require('fiber').create(trickle, 200, {seconds + 2})")
        return {"mesh_idle": idle, "mesh": _share_of_a_core(members, seconds)}


def _share_of_a_core(members: list[Member], seconds: float) -> float:
    """Return the mean processor time of the members in the next `seconds`, in per cent of a core."""
    before = [member.number("processor_time()") for member in members]
    time.sleep(seconds)
    used = [member.number("processor_time()") - was for member, was in zip(members, before, strict=True)]
    return 100 * sum(used) / len(used) / seconds


_GROUPS: dict[str, Callable[[Command, Command, Path, float], Values]] = {
    "fetch": fetch,
    "catch_up": catch_up,
    "join": join,
    "lag": lag,
    "commit": commit,
    "large": large,
    "mesh": mesh,
}


def _measure(group: str, master: Command, replica: Command, scale: float) -> Values:
    root = Path(tempfile.mkdtemp(prefix="bench"))
    try:
        return _GROUPS[group](master, replica, root, scale)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def measure(group: str, own: Command, tarantool: Command | None, scale: float, rounds: int) -> tuple[Values, Values]:
    """Measure a group with both programs in turns; return the best values of each."""
    results: tuple[Values, Values] = {}, {}
    for _ in range(rounds):
        for best, one, other in ((results[0], own, tarantool), (results[1], tarantool, own)):
            if one is None:
                continue
            found = _measure(group, one, one, scale)
            if group == "fetch" and other is not None:
                found["fetch_from_tarantool"] = _measure(group, other, one, scale)["fetch"]
            for figure in FIGURES:
                if figure.key in found:
                    new = found[figure.key]
                    old = best.get(figure.key, new)
                    best[figure.key] = max(old, new) if figure.higher_is_better else min(old, new)
    return results


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m test.bench.replication", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the number of operations")
    parser.add_argument("--rounds", type=int, default=2, help="how often each group is measured")
    parser.add_argument("--only", action="append", choices=sorted(_GROUPS), help="measure this group alone")
    parser.add_argument("--no-tarantool", action="store_true", help="measure Lunabox alone")
    args = parser.parse_args()
    tarantool = None if args.no_tarantool else tarantool_command()
    print("| figure | unit | this node | Tarantool | ratio |\n|---|---|---:|---:|---:|")
    with compiled_modules():
        for group in args.only or _GROUPS:
            ours, theirs = measure(group, OWN, tarantool, args.scale, args.rounds)
            for figure in FIGURES:
                if figure.key in ours:
                    mine, their = ours[figure.key], theirs.get(figure.key)
                    ratio = f"{mine / their:.2f}" if their else ""
                    row = f"| {figure.title} | {figure.unit} | {_text(mine)} | {_text(their)} | {ratio} |"
                    print(row, flush=True)


if __name__ == "__main__":
    main()
