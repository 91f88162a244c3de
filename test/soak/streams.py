"""A Spark query that follows a node: both are killed and started again, and every change is found exactly once.

One round starts what is not running, waits for a batch and kills (SIGKILL) the node, the Python processes of the query,
or both; every tenth time all of Spark. At the end the query runs once more, and what it has written in all rounds is
compared with all log files of the node.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from box.spark.cat import rows_of
from box.spark.definitions import USER_SPACES
from box.spark.stream.log_stream import DirectoryLog
from box.spark.stream.replica_stream import NodeLog
from box.spark.stream.stream_offset import StreamOffset
from box.spark.stream.stream_options import StreamOptions
from box.wire.vclock import VClock
from test.soak.stream_child import address
from test.support import wait_until

_START_SECONDS = 900.0
"""On a busy machine Spark gives up a Python process that has not answered within ten seconds, again and again."""


class Child:
    """A process of its own group; what it says goes to a file."""

    def __init__(self, directory: Path, name: str, *arguments: str) -> None:
        self.name = name
        command = [sys.executable, "-m", "test.soak.stream_child", *arguments]
        self._log = (directory / f"{name}.log").open("a+b")
        self._start = self._log.seek(0, os.SEEK_END)
        self.process = subprocess.Popen(
            command, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True, stdin=subprocess.DEVNULL
        )

    def output(self) -> bytes:
        """What it has said so far."""
        self._log.flush()
        return Path(self._log.name).read_bytes()[self._start :]

    def wait_ready(self) -> None:
        """Wait until it works; AssertionError if it ends before."""

        def is_ready() -> bool:
            assert self.process.poll() is None, f"{self.name} has ended: {self.output()[-3000:].decode()}"
            return b"ready" in self.output()

        wait_until(is_ready, f"{self.name} is ready", _START_SECONDS)

    def kill(self) -> None:
        """SIGKILL to it and its children."""
        assert self.process.poll() is None, f"{self.name} has ended: {self.output()[-3000:].decode()}"
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


def expected(directory: Path) -> Counter[tuple[int, int]]:
    """Replica id and lsn of all changes of user spaces in the log files."""
    found: Counter[tuple[int, int]] = Counter()
    for path in sorted((directory / "data").glob("*.xlog")):
        found.update((item.row.replica_id, item.row.lsn) for item in rows_of(str(path)) if item.space_id >= USER_SPACES)
    return found


def written(directory: Path) -> Counter[tuple[int, int]]:
    """The same of what the query has committed, as Spark reads it: files that its log of commits does not name do not
    count."""
    from test.bench.spark import session

    spark = session("local[1]")
    try:
        rows = spark.read.parquet(str(directory / "out")).select("replica_id", "lsn").collect()
    finally:
        spark.stop()
    return Counter((row.replica_id, row.lsn) for row in rows)


def kill_python(query: Child) -> None:
    """SIGKILL to the Python processes of Spark: the source's, which plans batches, and the workers, which read them."""
    for process in psutil.Process(query.process.pid).children(recursive=True):
        try:
            # Java has the word in its arguments, too.
            if process.name().startswith("python") and "pyspark" in " ".join(process.cmdline()):
                process.kill()
        except psutil.NoSuchProcess:
            continue


def _batches(directory: Path) -> int:
    """How many batches the query has committed."""
    return len(list((directory / "checkpoint" / "commits").glob("[0-9]*")))


def _rounds(directory: Path, rng: random.Random, source: str, size: int) -> None:
    running: dict[str, Child] = {}
    try:
        for number in range(size):
            if "node" not in running:
                running["node"] = Child(directory, "node", "node", str(directory), str(rng.randrange(10**6)))
            if "query" not in running:
                running["query"] = Child(directory, "query", "query", source, str(directory))
            for child in running.values():
                child.wait_ready()
            before = _batches(directory)
            wait_until(lambda: _batches(directory) > before, "a batch", _START_SECONDS)  # noqa: B023
            time.sleep(rng.random())
            victim = "jvm" if number % 10 == 9 else rng.choice(("node", "python", "node and python"))
            if "python" in victim:
                kill_python(running["query"])
            for name in ("query",) if victim == "jvm" else ("node",) if "node" in victim else ():
                running.pop(name).kill()
            print(f"  round {number + 1}: {victim} killed after {_batches(directory)} batches", flush=True)
    finally:
        for child in running.values():
            child.kill()


def _finish(directory: Path, source: str) -> None:
    """Let the query take the rest."""
    node = None
    if source == "uri":
        # The node writes on; what it writes after the last batch is not looked at.
        node = Child(directory, "node", "node", str(directory), "1")
        node.wait_ready()
    try:
        command = [sys.executable, "-m", "test.soak.stream_child", "query", source, str(directory), "once"]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:].decode()
    finally:
        if node is not None:
            node.kill()


def read_through_kills(directory: Path, source: str, seed: int, rounds: int) -> Counter[tuple[int, int]]:
    """Replica id and lsn of all changes, by the source alone: the node is killed in every round, and whoever reads in
    the next one knows no more than the last place and the batch that was planned then."""
    rng = random.Random(seed)
    found: Counter[tuple[int, int]] = Counter()
    options = StreamOptions.of({"path": "unused"})
    since: StreamOffset | None = None
    planned: StreamOffset | None = None
    for number in range(rounds):
        node = Child(directory, "node", "node", str(directory), str(rng.randrange(10**6)))
        log: DirectoryLog | NodeLog = DirectoryLog(str(directory / "data"))
        if source == "uri":
            log = NodeLog(address(directory), 60.0)
        try:
            node.wait_ready()
            since = since or log.begin(VClock())
            for _ in range(rng.randrange(1, 6)):
                planned = planned or _next_place(log, since, rng.choice((None, 20)))
                for part in log.parts(since, planned):
                    for batch in part.read(options, ["replica_id", "lsn"]):
                        found.update((row["replica_id"], row["lsn"]) for row in batch.to_pylist())
                since, planned = planned, None
            if number < rounds - 1:
                planned = _next_place(log, since, 50)
        finally:
            log.close()
            node.kill()
    return found


def _next_place(log: DirectoryLog | NodeLog, since: StreamOffset, limit: int | None) -> StreamOffset:
    """The end of the next batch, as soon as there is something."""
    found = [since]

    def has_come() -> bool:
        found.append(log.next(since, limit))
        return found[-1] != since

    wait_until(has_come, "a change", _START_SECONDS)
    return found[-1]


def run_campaign(seed: int, size: int) -> bool:
    """Half of the rounds on the files of a directory, half on a live node."""
    good = True
    for source in ("path", "uri"):
        with tempfile.TemporaryDirectory(prefix="lunabox-stream") as name:
            directory = Path(name)
            _rounds(directory, random.Random(f"{seed} {source}"), source, max(1, size // 2))
            _finish(directory, source)
            wanted, found = expected(directory), written(directory)
            if source == "uri":
                last = max(lsn for _, lsn in found)
                wanted = Counter({place: count for place, count in wanted.items() if place[1] <= last})
            lost, twice = wanted - found, found - wanted
            print(f"  {source}: {wanted.total()} changes, lost {lost.total()}, twice or invented {twice.total()}")
            good = good and not lost and not twice
    return good
