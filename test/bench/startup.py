"""Measures how long a start takes, beside Tarantool: `python -m test.bench.startup [SUITE...]`.

```
row               measured
libraries         python -c 'import asyncio, uvloop, lupa, msgpack'
start-up          lunabox -e 'os.exit(0)'
first select      a script: box.cfg, a space, an index, a row, a select
SUITE             the tests of the suite that pass on both programs, by lunabox-test
```

The first three rows are milliseconds of processor time, the median of some runs; the column `/ libraries` is the ratio
to the first row. A suite's row is seconds of wall time, the best of some runs. The programs take turns. Tarantool is
the executable LUNABOX_TARANTOOL, or `tarantool` on PATH.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

FIRST_SELECT = """
box.cfg{log = 'log'}
local s = box.schema.space.create('s')
s:create_index('pk')
s:insert{1}
assert(#s:select() == 1)
os.exit(0)
"""
_PASSED = re.compile(r"^(\S+)  passed.*?\((\d+\.\d+) s\)$", re.MULTILINE)


def milliseconds(command: list[str]) -> float:
    """Run a command in a new directory and return its processor time in milliseconds."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "first.lua").write_text(FIRST_SELECT)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def medians(runs: int, commands: dict[str, list[str]]) -> dict[str, float]:
    """Run the commands in turns and return the median time of each, in milliseconds.

    A run before does not count: it compiles the modules.
    """
    for command in commands.values():
        milliseconds(command)
    found = [{name: milliseconds(command) for name, command in commands.items()} for _ in range(runs)]
    return {name: median(each[name] for each in found) for name in commands}


def suite_times(suite: Path, executable: str | None) -> dict[str, float]:
    """Run a suite and return the seconds of each test that has passed, by its name."""
    command = [sys.executable, "-m", "console.suite.cli", str(suite), "--slowest", "0", "--timeout", "20"]
    if executable:
        command += ["--executable", executable]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return {name: float(found) for name, found in _PASSED.findall(output)}


def compare_suite(suite: Path, tarantool: str, runs: int) -> tuple[float, float]:
    """Return the seconds that Lunabox and Tarantool take for the tests that pass on both, the best of some runs."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / suite.name
        shutil.copytree(suite, copy)
        found = [
            (suite_times(copy, None), suite_times(copy, _with_injections(tarantool, Path(directory))))
            for _ in range(runs)
        ]
    common = set.intersection(*({*ours} & {*theirs} for ours, theirs in found))
    sums = [(sum(ours[name] for name in common), sum(theirs[name] for name in common)) for ours, theirs in found]
    return min(pair[0] for pair in sums), min(pair[1] for pair in sums)


def _with_injections(tarantool: str, directory: Path) -> str:
    """Write a wrapper of Tarantool that reports a debug build, and return its path.

    Suites skip tests with error injections for release builds.
    """
    wrapper = directory / "tarantool"
    version = "Tarantool 2.8.1-0-g0000000\\nTarget: Linux-x86_64-Debug\\n"
    wrapper.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ printf \'{version}\'; exit; }}\nexec {tarantool} "$@"\n')
    wrapper.chmod(0o755)
    return str(wrapper)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m test.bench.startup", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", type=Path, metavar="SUITE", help="the directory of a suite")
    parser.add_argument("--runs", type=int, default=15, help="how often each command is measured")
    options = parser.parse_args()
    ours = [str(Path(sys.executable).with_name("lunabox"))]
    tarantool = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
    if tarantool is None:
        sys.exit("Tarantool is not on PATH; set LUNABOX_TARANTOOL to its executable")
    starts = {"start-up": ["-e", "os.exit(0)"], "first select": ["first.lua"]}
    commands = {"libraries": [sys.executable, "-c", "import asyncio, uvloop, lupa, msgpack"]}
    for name, arguments in starts.items():
        commands[name] = [*ours, *arguments]
        commands[f"their {name}"] = [tarantool, *arguments]
    found = medians(options.runs, commands)
    base = found["libraries"]
    print(f"{'':<14} {'ours':>8} {'Tarantool':>9} {'ratio':>6} {'/ libraries':>11}")
    print(f"{'libraries':<14} {base:6.0f}ms")
    for name in starts:
        mine, theirs = found[name], found[f"their {name}"]
        print(f"{name:<14} {mine:6.0f}ms {theirs:7.0f}ms {mine / theirs:6.1f} {mine / base:11.1f}")
    for suite in options.suites:
        mine, theirs = compare_suite(suite.resolve(), tarantool, max(options.runs // 7, 1))
        print(f"{suite.name:<14} {mine:7.2f}s {theirs:7.2f}s {mine / theirs:6.1f}")


if __name__ == "__main__":
    main()
