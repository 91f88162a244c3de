"""`box.cfg.pid_file`: the file with the id of the running process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from box.errors import BoxError
from box.instance.node import Instance
from box.instance.pidfile import PidFile


def test_the_file_holds_the_number_alone(tmp_path: Path) -> None:
    """The file has the number without a line end, replaces old content, and is removed at the end."""
    path = tmp_path / "n.pid"
    path.write_text("12345678901 stale")
    file = PidFile(str(path))
    file.write()
    assert path.read_text() == str(os.getpid())
    assert path.stat().st_mode & 0o777 == 0o644
    file.remove()
    assert not path.exists()


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    """A second owner gets an error with the first one's process id."""
    path = str(tmp_path / "n.pid")
    first = PidFile(path)
    first.write()
    with pytest.raises(BoxError, match=f"the daemon is already running: PID {os.getpid()}"):
        PidFile(path)
    first.remove()
    PidFile(path).remove()


def test_a_file_that_cannot_be_created(tmp_path: Path) -> None:
    """The error of a file that cannot be created has the path and the system's text."""
    path = str(tmp_path / "none" / "n.pid")
    with pytest.raises(BoxError, match="failed to create pid file") as caught:
        PidFile(path)
    assert caught.value.errno == 2


def test_a_node_keeps_its_file_while_it_runs(tmp_path: Path) -> None:
    """A node keeps its file, relative to `work_dir`, while it runs; a failed start removes it."""

    async def body() -> None:
        (tmp_path / "work").mkdir()
        options = {"pid_file": "n.pid", "work_dir": "work"}
        path = tmp_path / "work" / "n.pid"
        node = Instance(tmp_path)
        await node.configure(options)
        assert path.read_text() == str(os.getpid())
        other = Instance(tmp_path)
        with pytest.raises(BoxError, match="the daemon is already running"):
            await other.configure(options)
        await other.close()
        assert path.exists()
        await node.close()
        assert not path.exists()

    asyncio.run(body())


def test_a_failed_start_lets_go(tmp_path: Path) -> None:
    """After a failed start the next attempt can use the file."""

    async def body() -> None:
        node = Instance(tmp_path)
        with pytest.raises(BoxError):
            await node.configure({"pid_file": "n.pid", "wal_dir": "nowhere"})
        assert not (tmp_path / "n.pid").exists()
        await node.configure({"pid_file": "n.pid"})
        assert (tmp_path / "n.pid").exists()
        await node.close()

    asyncio.run(body())
