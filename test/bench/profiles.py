"""`python -m test.bench.profiles [FIGURE...]`: prints the functions in which figures of `make bench` spend their time.

Each figure runs alone under cProfile. Because that slows Python calls down, only shares of the time and calls an
operation are shown. The profiler starts with the operations, or with the first import for start-up and recovery. Time
inside Lua counts for the Python function that has entered it (`Waits._run` or `Runtime.start`); Python functions that
Lua calls count by themselves.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from test.bench.__main__ import FIGURES, Console, compiled_modules, free_port

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_OPERATIONS = 50_000
_TUPLES = 200_000
_SHOWN = 8
"""The number of functions that are printed for a figure."""
_ROUNDS = 3
"""Rounds that inprocess.lua and the clients make of all operations."""
_NOT_MEASURED = (":close", "'acquire' of '_thread.lock' objects")
"""Ends of the names of functions that run while the program exits, and do not count."""


@dataclass(frozen=True, slots=True)
class _Run:
    """How to run one figure: `mode` and `name` are arguments of inprocess.lua.

    With a `request` the figure is one of a client, and `mode` is the server's `wal_mode`.
    """

    mode: str
    name: str = ""
    request: str = ""
    setup: str = ""
    """A mode of inprocess.lua that runs before, to fill the directory."""
    whole: bool = False
    """True if the profiler starts with the first import."""


def _runs() -> dict[str, _Run]:
    runs = {
        "snapshot": _Run("fill"),
        "recovery": _Run("recover", setup="fill", whole=True),
        "startup": _Run("start", whole=True),
    }
    for figure in FIGURES:
        key = figure.key
        if key.startswith("iproto_"):
            name, _, wal_mode = key.removeprefix("iproto_").rpartition("_")
            runs[key] = _Run(wal_mode, request=name)
        elif key in ("replace_one_fiber", "replace_100_fibers"):
            runs[key] = _Run("journal", key)
        elif key not in (*runs, "memory", "console"):
            runs[key] = _Run("data", key)
    return runs


def _profiled(stats: Path, is_whole: bool, *arguments: object) -> subprocess.Popen[bytes]:
    program = ["--whole" if is_whole else "--part", str(stats), *map(str, arguments)]
    command = [sys.executable, "-m", "test.bench.profiles", *program]
    return subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.DEVNULL)


def _in_process(run: _Run, stats: Path, directory: Path) -> int:
    """Run a figure of inprocess.lua and return the number of operations that were profiled."""
    count = _TUPLES if run.mode in ("fill", "recover") else _OPERATIONS
    script = _HERE / "inprocess.lua"
    if run.setup:
        _profiled(stats, False, script, directory, run.setup, count).wait()
    _profiled(stats, run.whole, script, directory, run.mode, count, run.name or "all").wait()
    return count * _ROUNDS if run.name else count


def _served(run: _Run, stats: Path, directory: Path) -> int:
    uri, console = f"127.0.0.1:{free_port()}", directory / "c"
    server = _profiled(stats, False, _HERE / "server.lua", directory, uri, run.mode, console)
    while not console.exists() and server.poll() is None:
        time.sleep(0.01)
    connection = Console(str(console))
    connection.ask("require('internal.python').start_profiler()")
    connection.close()
    pipelined = run.request.removeprefix("pipelined_")
    if pipelined != run.request:
        arguments = ["test.bench.pipelined", uri, str(_OPERATIONS), pipelined]
    else:
        arguments = ["test.bench.client", uri, str(_OPERATIONS), "1000", run.request]
    client = [sys.executable, "-m", *arguments]
    subprocess.run(client, cwd=_ROOT, stdout=subprocess.DEVNULL, check=True)
    server.send_signal(signal.SIGTERM)
    server.wait()
    return _OPERATIONS * _ROUNDS


def _place(function: tuple[str, int, str]) -> str:
    file, _, name = function
    if file == "~":
        return name.strip("<>").removeprefix("built-in method ")
    path = Path(file)
    where = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path.name
    return f"{where}:{name}"


def profile(key: str) -> list[tuple[float, float, str]]:
    """Profile one figure; return the share of the time, calls an operation and name of its costliest functions."""
    run = _runs()[key]
    with tempfile.TemporaryDirectory(prefix="bench") as root:
        stats, directory = Path(root) / "stats", Path(root) / "node"
        directory.mkdir()
        count = (_served if run.request else _in_process)(run, stats, directory)
        found = pstats.Stats(str(stats)).stats  # type: ignore[attr-defined]
    rows = [(own, calls / count, _place(function)) for function, (_, calls, own, _, _) in found.items()]
    rows = [row for row in rows if not row[2].endswith(_NOT_MEASURED)]
    whole = sum(own for own, _, _ in rows)
    return [(own / whole, calls, place) for own, calls, place in sorted(rows, reverse=True)[:_SHOWN]]


def _program(is_whole: bool, stats: str, arguments: Sequence[str]) -> None:
    """Run the console under the profiler, in the child process, and write its statistics to the file `stats`."""
    profiler = cProfile.Profile()
    if is_whole:
        profiler.enable()
    import box.embed.lua_instance
    from console.cli import main
    from lua.runtime import Runtime

    class Profiled(Runtime):
        """A runtime in which Lua can start the profiler."""

        def _boot(self) -> None:
            self.bind("start_profiler", lambda: None if is_whole else profiler.enable())
            super()._boot()

    box.embed.lua_instance.Runtime = Profiled  # type: ignore[misc]
    try:
        main(list(arguments))
    finally:
        profiler.disable()
        profiler.dump_stats(stats)


def main() -> None:
    if sys.argv[1:2] in (["--whole"], ["--part"]):
        _program(sys.argv[1] == "--whole", sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(prog="python -m test.bench.profiles", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(_runs()))
    titles = {figure.key: figure.title for figure in FIGURES}
    figures = parser.parse_args().figures or list(_runs())
    unknown = [key for key in figures if key not in _runs()]
    if unknown:
        parser.error(f"no such figure: {', '.join(unknown)}")
    with compiled_modules():
        for key in figures:
            print(f"{titles[key]}")
            for share, calls, place in profile(key):
                print(f"  {share:4.0%} {calls:6.2f}  {place}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
