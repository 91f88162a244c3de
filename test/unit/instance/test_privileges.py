"""`box.cfg.username`: root becomes another user for good. Tests run in child processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = """
import asyncio, os, sys
from importlib import import_module
from box.errors import BoxError
from box.instance.node import Instance
from box.journal.xlog import checksum

async def main():
    if "as nobody" in sys.argv:
        # The real nobody would have a Python that it may read.
        checksum(b"")
        import_module("box.instance.parts")
        os.setuid(65534)
    node = Instance(sys.argv[1])
    try:
        await node.configure({"username": sys.argv[2], "log": "node.log"})
    except BoxError as error:
        print(error.type, error.message)
    print(os.getresuid(), os.getresgid(), os.getgroups())
    await node.close()

asyncio.run(main())
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Make a directory where everybody may write."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SOURCE, str(directory), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


@as_root
def test_root_becomes_the_user(open_directory: Path) -> None:
    """Root becomes the user for good, without groups, and files belong to the user."""
    assert run(open_directory, "nobody").stdout == "(65534, 65534, 65534) (65534, 65534, 65534) []\n"
    owners = {path.name: path.stat().st_uid for path in open_directory.iterdir()}
    assert set(owners.values()) == {65534}
    assert "node.log" in owners


@as_root
def test_unknown_user(open_directory: Path) -> None:
    """An unknown user is an error before anything is opened."""
    assert run(open_directory, "no such user").stdout.startswith("SystemError User not found: no such user\n(0, 0, 0)")
    assert not list(open_directory.iterdir())


def test_others_get_a_message(open_directory: Path) -> None:
    """A process of another user starts, with a message on standard error because the log is not open yet."""
    outcome = run(open_directory, "nobody", *["as nobody"] * (os.geteuid() == 0))
    assert "can't switch to nobody: i'm not root" in outcome.stderr
    assert (open_directory / "node.log").exists()
