"""The start of the command: quick answers before slow imports, imports at their first use, the exit."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("option", ["--version", "-v", "--help", "-h"])
def test_what_the_command_says_of_itself(option: str) -> None:
    """--version and --help answer without importing the node, also with other options."""
    command = [sys.executable, "-m", "console", option]
    at_once = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
    usual = subprocess.run([*command, "-i"], capture_output=True, timeout=60, check=True).stdout
    assert at_once == usual != b""
    trace = subprocess.run([sys.executable, "-v", *command[1:]], capture_output=True, timeout=60, check=True).stderr
    assert b"import 'asyncio'" not in trace


def test_output_that_cannot_be_written_is_told() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "console", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, b"lunabox: standard output: No space left on device\n")


@pytest.mark.parametrize(("source", "code", "output"), [("os.exit(5)", 5, ""), ("print('x') error('y', 0)", 1, "x\n")])
def test_the_end_of_the_process_keeps_code_and_output(source: str, code: int, output: str) -> None:
    """The process ends without tearing the interpreter down, but runs exit functions and keeps code and output."""
    program = (
        "import atexit, sys; atexit.register(lambda: print('registered', file=sys.stderr))\n"
        f"sys.argv = ['lunabox', '-e', {source!r}]\n"
        "from console.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (code, output)
    assert done.stderr.endswith("registered\n")


def imported(program: str) -> set[str]:
    """Return the modules that a program imports, besides those of asyncio, uvloop, lupa and msgpack."""
    source = (
        "import asyncio, sys, uvloop, lupa, msgpack\nbefore = {*sys.modules}\n"
        f"{program}\nprint(*({{*sys.modules}} - before))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_a_console_without_box_cfg_imports_little() -> None:
    """A console without box.cfg does not import what only data, logs, the prompt or HTTP need, nor the Python halves of
    Lua modules that the program does not use.
    """
    found = imported("from console.cli import main; assert main(['-e', 'x = 1']) == 0")
    needless = """
        BTrees dataclasses decimal email greenlet google_crc32c http.client json pathlib prompt_toolkit pyarrow shutil
        uuid zoneinfo zstandard box.data.format box.data.times.points box.iproto.stats box.wire.constants
        box.instance.option_checks box.instance.parts lua.bindings.data lua.bindings.fio lua.bindings.net_box
    """
    assert not found & set(needless.split())
    assert len(found) <= 106, sorted(found)


def test_the_halves_of_lua_modules_are_imported_when_they_are_used() -> None:
    found = imported("from console.cli import main; assert main(['-e', 'local cwd = require(\"fio\").cwd()']) == 0")
    assert "lua.bindings.fio" in found
    assert "lua.bindings.digest" not in found


def test_import_box_imports_only_errors() -> None:
    """`import box` loads neither the node nor the values that programs may never use."""
    assert {name for name in imported("import box") if name.startswith("box.")} <= {
        "box.error_codes",
        "box.errors",
        "box.version",
    }
