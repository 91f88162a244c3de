"""Quicker imports are the packages' own code with the same sizes of nodes; quick answers are the usual ones."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOOK = """
import json, sys
if sys.argv[1] == "quick":
    from console import quick_start
    quick_start.prepare()
from BTrees.OOBTree import OOBTree, OOBucket
from BTrees.QOBTree import QOBTree, QOBucket
from crc32c import crc32c
tree = QOBTree({number: number for number in range(1000)})
print(json.dumps([
    OOBTree.max_leaf_size, OOBTree.max_internal_size, QOBTree.max_leaf_size, QOBTree.max_internal_size,
    list(tree.keys(500, 510)), crc32c(b"abc"), [kind.__module__ for kind in (OOBTree, OOBucket, QOBTree, QOBucket)],
]))
"""


def look(way: str) -> object:
    done = subprocess.run([sys.executable, "-c", LOOK, way], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_quick_imports_are_like_the_usual_ones() -> None:
    assert look("quick") == look("usual")


def test_who_needs_ssl_has_it() -> None:
    """The event loops are imported without it, everything else gets the real one."""
    program = (
        "import sys; from console import quick_start; quick_start.prepare()\n"
        "assert 'asyncio' in sys.modules and 'uvloop' in sys.modules and '_ssl' not in sys.modules\n"
        "import ssl, http.client, uvloop, asyncio; ssl.create_default_context()\n"
        "async def run(): return await asyncio.to_thread(ssl.create_default_context)\n"
        "assert isinstance(uvloop.run(run()), ssl.SSLContext)"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


@pytest.mark.parametrize("option", ["--version", "-v", "--help", "-h"])
def test_what_the_command_says_of_itself(option: str) -> None:
    """At once where that is all it is asked for, and the same with other options."""
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
    """The interpreter is not taken apart; what is registered for its exit runs all the same."""
    program = (
        "import atexit, sys; atexit.register(lambda: print('registered', file=sys.stderr))\n"
        f"sys.argv = ['lunabox', '-e', {source!r}]\n"
        "from console.quick_start import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (code, output)
    assert done.stderr.endswith("registered\n")
