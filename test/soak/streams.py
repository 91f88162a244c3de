"""The campaign "streams": kills and restarts a node and a Spark query that follows it; changes arrive exactly once.

Each round starts what does not run, waits for a batch and kills (SIGKILL) the node, the Python processes of the query,
or both; every tenth round kills all of Spark. At the end the query runs once more, and the rows that it has written in
all rounds are compared with the node's log files.
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
"""Seconds for a step of Spark: on a busy machine it repeatedly gives up Python processes that take ten seconds."""


class Child:
    """A child process in a group of its own, whose output goes to a file."""

    def __init__(self, directory: Path, name: str, *arguments: str) -> None:
        self.name = name
        command = [sys.executable, "-m", "test.soak.stream_child", *arguments]
        self._log = (directory / f"{name}.log").open("a+b")
        self._start = self._log.seek(0, os.SEEK_END)
        self.process = subprocess.Popen(
            command, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True, stdin=subprocess.DEVNULL
        )

    def output(self) -> bytes:
        """Return the output of this process so far."""
        self._log.flush()
        return Path(self._log.name).read_bytes()[self._start :]

    def wait_ready(self) -> None:
        """Wait until the process prints `ready`.

        Raises:
            AssertionError: it ends before, or takes longer than `_START_SECONDS`.
        """

        def is_ready() -> bool:
            assert self.process.poll() is None, f"{self.name} has ended: {self.output()[-3000:].decode()}"
            return b"ready" in self.output()

        wait_until(is_ready, f"{self.name} is ready", _START_SECONDS)

    def kill(self) -> None:
        """Send SIGKILL to the process and its children."""
        assert self.process.poll() is None, f"{self.name} has ended: {self.output()[-3000:].decode()}"
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


def expected(directory: Path) -> Counter[tuple[int, int]]:
    """Return replica id and LSN of each change of a user space in the log files."""
    found: Counter[tuple[int, int]] = Counter()
    for path in sorted((directory / "data").glob("*.xlog")):
        found.update((item.row.replica_id, item.row.lsn) for item in rows_of(str(path)) if item.space_id >= USER_SPACES)
    return found


def written(directory: Path) -> Counter[tuple[int, int]]:
    """Return replica id and LSN of each change that the query has written.

    Spark reads the output: it ignores files of batches that were not committed.
    """
    from test.bench.spark import session

    spark = session("local[1]")
    try:
        rows = spark.read.parquet(str(directory / "out")).select("replica_id", "lsn").collect()
    finally:
        spark.stop()
    return Counter((row.replica_id, row.lsn) for row in rows)


def kill_python(query: Child) -> None:
    """Send SIGKILL to the Python processes of Spark: the one that plans batches and the workers that read them."""
    for process in psutil.Process(query.process.pid).children(recursive=True):
        try:
            # The name is checked because Java's arguments contain "pyspark", too.
            if process.name().startswith("python") and "pyspark" in " ".join(process.cmdline()):
                process.kill()
        except psutil.NoSuchProcess:
            continue


def _batches(directory: Path) -> int:
    """Return the number of batches that the query has committed."""
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
    """Run the query once more, up to the last change."""
    node = None
    if source == "uri":
        # The node goes on writing; changes after the last batch are ignored.
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
    """Read changes with the stream source alone, without Spark, and kill the node after each round.

    Each round continues, as Spark does, from the last offset and from the batch that was planned but not read.

    Returns:
        Replica id and LSN of each change that was read.
    """
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
    """Wait for a change after `since`, and return the end of the batch with it, of about `limit` rows."""
    found = [since]

    def has_come() -> bool:
        found.append(log.next(since, limit))
        return found[-1] != since

    wait_until(has_come, "a change", _START_SECONDS)
    return found[-1]


def run_campaign(seed: int, size: int) -> bool:
    """Run half of the rounds on the files of a directory and half on a live node; return True if no change is wrong."""
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
            print(f"  {source}: {wanted.total()} changes, {lost.total()} lost, {twice.total()} doubled or made up")
            good = good and not lost and not twice
    return good
