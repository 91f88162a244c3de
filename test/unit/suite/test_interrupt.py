"""However a run ends, its nodes end, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.suite.suite_run import INTERRUPTED
from test.support import wait_until

DEADLINE = 30.0
INI = "[default]\ncore = {core}\nscript = box.lua\nuse_unix_sockets_iproto = 1\n"
NOTE_PID = "local file = io.open({path!r}, 'w') file:write(require('tarantool').pid()) file:close()\n"
LISTEN = "require('console').listen(os.getenv('ADMIN')) box.cfg{}\n"
HANG = "require('fiber').sleep(1000)\n"


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Reset SIGINT, which a shell without job control ignores in what it starts with `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a killed child that is not collected yet counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, and PR_SET_PDEATHSIG for SIGKILL")
@pytest.mark.parametrize("core", ["tarantool", "app"])
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, INTERRUPTED), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_nodes_end_with_the_runner(tmp_path: Path, core: str, number: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM of the runner stop its nodes, SIGKILL of the runner kills them."""
    suite = tmp_path / "s"
    suite.mkdir()
    note = NOTE_PID.format(path=str(tmp_path / "pid"))
    (suite / "suite.ini").write_text(INI.format(core=core))
    (suite / "box.lua").write_text(note + LISTEN)
    (suite / "t.test.lua").write_text(HANG if core == "tarantool" else note + HANG)
    runner = subprocess.Popen(
        [sys.executable, "-m", "console.suite.cli", str(suite)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        pid = int((tmp_path / "pid").read_text())
        runner.send_signal(number)
        assert runner.wait(DEADLINE) == code
        wait_until(lambda: not is_alive(pid))
    finally:
        runner.kill()
        runner.wait()
