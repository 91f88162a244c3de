"""How long a start takes, beside Tarantool: `python -m test.bench.startup [SUITE...]`.

```
start-up          a process that does nothing but end
first select      a bare script: box.cfg, a space, an index, a row, a select
SUITE             all its tests by lunabox-test, for the tests that pass on both
```

Each figure is the best of some runs, which alternate; Tarantool is $LUNABOX_TARANTOOL, or `tarantool`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

FIRST_SELECT = """
box.cfg{log = 'log'}
local s = box.schema.space.create('s')
s:create_index('pk')
s:insert{1}
assert(#s:select() == 1)
os.exit(0)
"""
_PASSED = re.compile(r"^(\S+)  passed.*?\((\d+\.\d+) s\)$", re.MULTILINE)


def seconds(command: list[str]) -> float:
    """Of one run in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "first.lua").write_text(FIRST_SELECT)
        begun = time.perf_counter()
        subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        return time.perf_counter() - begun


def best(runs: int, ours: Callable[[], float], tarantool: Callable[[], float]) -> tuple[float, float]:
    """The shortest of some runs of each, one after the other."""
    both = [(ours(), tarantool()) for _ in range(runs)]
    return min(pair[0] for pair in both), min(pair[1] for pair in both)


def suite_times(suite: Path, executable: str | None) -> dict[str, float]:
    """Seconds of each test that has passed."""
    command = [sys.executable, "-m", "console.suite.cli", str(suite), "--slowest", "0", "--timeout", "20"]
    if executable:
        command += ["--executable", executable]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return {name: float(found) for name, found in _PASSED.findall(output)}


def compare_suite(suite: Path, tarantool: str, runs: int) -> tuple[float, float]:
    """Both sums over the tests that pass on both, the best of some runs."""
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
    """Tarantool as a build with error injections, whatever its version says: suites skip tests without."""
    wrapper = directory / "tarantool"
    version = "Tarantool 2.8.1-0-g0000000\\nTarget: Linux-x86_64-Debug\\n"
    wrapper.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ printf \'{version}\'; exit; }}\nexec {tarantool} "$@"\n')
    wrapper.chmod(0o755)
    return str(wrapper)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", type=Path, metavar="SUITE")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    ours = [str(Path(sys.executable).with_name("lunabox"))]
    tarantool = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
    if tarantool is None:
        sys.exit("Tarantool is not installed: LUNABOX_TARANTOOL=PATH")
    print(f"{'':<14} {'ours':>8} {'Tarantool':>9} {'ratio':>6}")
    for name, arguments in (("start-up", ["-e", "os.exit(0)"]), ("first select", ["first.lua"])):
        mine, theirs = best(
            options.runs, lambda a=arguments: seconds([*ours, *a]), lambda a=arguments: seconds([tarantool, *a])
        )
        print(f"{name:<14} {mine:7.3f}s {theirs:7.3f}s {mine / theirs:6.1f}")
    for suite in options.suites:
        mine, theirs = compare_suite(suite.resolve(), tarantool, max(options.runs // 2, 1))
        print(f"{suite.name:<14} {mine:7.2f}s {theirs:7.2f}s {mine / theirs:6.1f}")


if __name__ == "__main__":
    main()
