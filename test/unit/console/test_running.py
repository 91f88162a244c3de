"""Instances as services without a terminal, `lunabox init`, and completion for shells."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from test.support import wait_until

LUNABOX = [sys.executable, "-m", "console"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LUNABOX, *arguments], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-e", "box.cfg{listen = 'unix/:./i', log = 'node.log'}"], ""),
        ([], "box.cfg{listen = 'unix/:./i', log = 'node.log'}"),
    ],
)
def test_a_service_without_a_terminal_stays_up(tmp_path: Path, arguments: list[str], text: str) -> None:
    """A service without a terminal stays up at the end of its input, as in Tarantool."""
    process = subprocess.Popen([*LUNABOX, *arguments], cwd=tmp_path, env=ENVIRONMENT, stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        process.stdin.write(text.encode())
        process.stdin.close()
        log = tmp_path / "node.log"
        wait_until(
            lambda: process.poll() is not None or (log.exists() and "entering the event loop" in log.read_text()),
            "the instance runs",
            60,
        )
        assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()


def test_init_makes_what_can_be_started(tmp_path: Path) -> None:
    """`lunabox init` writes a script that runs as it is, and overwrites no file."""
    done = run("init", "app", "--listen", "unix/:./listen.sock", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    script, unit = tmp_path / "app" / "init.lua", tmp_path / "app" / "app.service"
    assert [Path(line) for line in done.stdout.splitlines()] == [script, unit]
    assert stat.S_IMODE(script.stat().st_mode) & 0o700 == 0o700
    assert f"WorkingDirectory={tmp_path / 'app'}" in unit.read_text()
    again = run("init", "app", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (1, f"lunabox init: {script}: File exists\n")
    checked = run("-e", f"assert(loadfile('{script}')) print('fine') os.exit(0)", cwd=tmp_path)
    assert checked.stdout == "fine\n"
    process = subprocess.Popen(
        [*LUNABOX, "init.lua"], cwd=tmp_path / "app", env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        wait_until(lambda: (tmp_path / "app" / "admin.sock").exists(), "the console listens", 60)
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("nöw 'a' app", "n-w-a-app"), ("a$b 100%", "a-b-100"), ("ж", "lunabox"), ("ok_1.2-b", "ok_1.2-b")],
)
def test_a_directory_of_any_name_gets_a_unit_that_systemd_reads(tmp_path: Path, name: str, unit: str) -> None:
    """The name of the unit has only characters that systemd allows there, and paths are quoted where it unquotes."""
    assert run("init", name, cwd=tmp_path).returncode == 0
    path = tmp_path / name / f"{unit}.service"
    written = path.read_text()
    escaped = f"{tmp_path / name}".replace("%", "%%")
    assert f"\nWorkingDirectory={escaped}\n" in written
    quoted = '"{}"' if " " in name else "{}"
    assert (
        written.split("\nExecStart=")[1]
        .splitlines()[0]
        .endswith(quoted.format(f"{escaped}/init.lua".replace("$", "$$")))
    )
    if (systemd := shutil.which("systemd-analyze")) is not None:
        command = [systemd, "verify", "--man=no", "--recursive-errors=no", str(path)]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments", [["init"], ["init", "x", "--listen", "::"], ["completion", "fish"], ["completion"], ["sql"]]
)
def test_wrong_command_lines(tmp_path: Path, arguments: list[str]) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("init", "file/x", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


def test_completion_of_bash(tmp_path: Path) -> None:
    """Bash accepts the completion script, which completes commands and their options."""
    bash = shutil.which("bash")
    assert bash is not None
    text = run("completion", "bash", cwd=tmp_path).stdout
    ask = 'COMP_WORDS=(lunabox top --o); COMP_CWORD=2; _lunabox; echo "${COMPREPLY[@]}"'
    done = subprocess.run([bash, "-c", f"{text}\n{ask}"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["--once"]


def test_completion_of_zsh(tmp_path: Path) -> None:
    zsh = shutil.which("zsh")
    text = run("completion", "zsh", cwd=tmp_path).stdout
    assert text.startswith("#compdef lunabox\n")
    if zsh is not None:
        subprocess.run([zsh, "-n", "-c", text], check=True)


def test_help_has_examples(tmp_path: Path) -> None:
    """Help of the command and of each subcommand has examples."""
    for arguments in ([], ["connect"], ["top"], ["sql"], ["init"], ["completion"]):
        done = run(*arguments, "--help", cwd=tmp_path)
        assert (done.returncode, "xample" in done.stdout) == (0, True)


def test_init_writes_nothing_beside_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    unit = tmp_path / "app" / "app.service"
    unit.symlink_to(tmp_path / "nowhere")
    done = run("init", "app", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, f"lunabox init: {unit}: File exists\n")
    assert [path.name for path in (tmp_path / "app").iterdir()] == ["app.service"]
