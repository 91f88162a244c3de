"""The campaign "cluster": exports a space on a local Spark cluster of one master and two workers.

In every second export a worker is killed. Checked: each export contains every row exactly once.
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
from pathlib import Path

from box import Node
from box.testing.free_ports import free_ports
from test.support import wait_until

ROWS = 200_000
_SECONDS = 300.0
"""Seconds for any step of Spark, on a busy machine."""


def _make_data(directory: Path) -> None:
    async def run() -> None:
        async with Node(directory, wal_mode="none", log_level=0, memtx_memory=1 << 29) as node:
            await node.eval(
                f"""
                local s = box.schema.space.create('goods', {{format = {{{{'id', 'unsigned'}}, {{'name', 'string'}}}}}})
                s:create_index('pk')
                for i = 1, {ROWS} do s:insert{{i, string.rep('name ' .. i * 7919 % 1000003, 10)}} end
                box.snapshot()
                """
            )

    directory.mkdir()
    asyncio.run(run())


class Cluster:
    """A master and two workers of Spark, each in a process group of its own. All log to `cluster.log`."""

    def __init__(self, directory: Path) -> None:
        import pyspark

        self._directory = directory
        self._home = Path(pyspark.__file__).parent
        self._port = free_ports(1)[0]
        self.url = f"spark://127.0.0.1:{self._port}"
        names = {"SPARK_HOME": str(self._home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        self.environment = {**os.environ, **names, "SPARK_WORKER_DIR": str(directory / "work")}
        self._count = 0
        options = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0"]
        self.master = self._start("master.Master", *options)
        wait_until(lambda: b"I have been elected leader" in self._output(), "the master serves", _SECONDS)
        self.workers = [self.add_worker() for _ in range(2)]

    def _output(self) -> bytes:
        return (self._directory / "cluster.log").read_bytes()

    def _start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        with (self._directory / "cluster.log").open("ab") as log:
            command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options]
            return subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker with one core, wait until the master has registered it, and return its process."""
        worker = self._start("worker.Worker", "-c", "1", "-m", "1g", "--webui-port", "0", self.url)
        self._count += 1
        wanted = self._count
        text = b"Successfully registered with master"
        wait_until(lambda: self._output().count(text) >= wanted, "a worker", _SECONDS)
        return worker

    def close(self) -> None:
        for process in (*self.workers, self.master):
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to the process group of a process, and wait for its end."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _export(cluster: Cluster, directory: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "box.spark.export", str(directory / "data"), "goods", "--to", "parquet", str(out)]
    options = ["--master", cluster.url, "--partitions", "40", "--conf", "spark.driver.host=127.0.0.1"]
    options += ["--conf", "spark.executor.memory=512m"]
    return subprocess.Popen(
        [*command, *options], env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def _is_whole(out: Path) -> bool:
    import pyarrow.parquet as pq

    files = sorted(out.glob("part-*.parquet"))
    found = sorted(number for file in files for number in pq.read_table(file).column("id").to_pylist())
    return found == list(range(1, ROWS + 1))


def run_campaign(seed: int, size: int) -> bool:
    """Run `size` exports and print each result. Returns False at the first export that fails or lacks rows."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="lunabox-cluster") as name:
        directory = Path(name)
        _make_data(directory / "data")
        cluster = Cluster(directory)
        try:
            for number in range(size):
                out = directory / f"out{number}"
                export = _export(cluster, directory, out)
                if number % 2:
                    wait_until((out / "_temporary").exists, "the export writes", _SECONDS)
                    time.sleep(rng.random() * 2)
                    kill(cluster.workers.pop(0))
                    cluster.workers.append(cluster.add_worker())
                text = export.communicate()[0].decode()
                good = export.returncode == 0 and _is_whole(out)
                print(f"  export {number + 1}: {'complete' if good else 'INCOMPLETE: ' + text[-2000:]}", flush=True)
                if not good:
                    return False
        finally:
            cluster.close()
    return True
