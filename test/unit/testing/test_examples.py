"""The sample application: its tests, and the program; unit/embed/test_typing.py checks its types."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from box.testing.free_ports import free_ports

pytest.importorskip("aiohttp")
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "job_queue"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def run(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=EXAMPLE,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


def test_the_tests_of_the_example_pass() -> None:
    run("-m", "pytest", "-q", "-p", "box.testing.pytest_plugin", "-p", "no:cacheprovider")


def test_the_tests_of_the_example_need_only_its_extra() -> None:
    """The sample's tests need only its own extra: no pytest plugin but Lunabox's is loaded."""
    run("-m", "pytest", "--collect-only", "--disable-plugin-autoload", "-p", "box.testing.pytest_plugin")


# What a shell without job control does for a program that it starts with `&`.
SIGINT_IGNORED = ["/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh"]


def test_the_program_serves_its_page(tmp_path: Path) -> None:
    """A posted job is done by a worker and survives a restart; signals end the program in order."""
    assert post_and_wait(tmp_path, "one two three", signal.SIGTERM) == [("one two three", "done", "3 words")]
    assert len(post_and_wait(tmp_path, "four", signal.SIGINT)) == 2


def post_and_wait(directory: Path, text: str, number: signal.Signals) -> list[tuple[str, str, str]]:
    """Post jobs, wait until all are done, return them as (text, state, result), and stop the program with a signal."""
    port = str(free_ports(1)[0])
    command = [sys.executable, "-m", "job_queue", "--directory", str(directory / "data"), "--port", port]
    with subprocess.Popen(
        [*SIGINT_IGNORED, *command],
        cwd=EXAMPLE,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().decode().strip()
            with urllib.request.urlopen(f"{address}/jobs", data=f"text={text}".encode(), timeout=20) as answer:
                assert answer.status == 201
            jobs = jobs_when_done(address)
            process.send_signal(number)
            assert process.wait(20) == 0
            return jobs
        finally:
            process.kill()


def jobs_when_done(address: str) -> list[tuple[str, str, str]]:
    deadline = time.monotonic() + 30
    while True:
        with urllib.request.urlopen(f"{address}/jobs", timeout=20) as answer:
            jobs = [(job["text"], job["state"], job["result"]) for job in json.load(answer)]
        if all(state == "done" for _, state, _ in jobs):
            return jobs
        assert time.monotonic() < deadline, jobs
        time.sleep(0.02)
