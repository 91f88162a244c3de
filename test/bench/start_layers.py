"""Measures the layers of a start with data: `python -m test.bench.start_layers [--rows N] [FIGURE...]`.

The figures are those of `test.bench.data_start`. Each layer is a function, or some functions, whose calls take many
rows at once, and its time is the processor time inside it without that of the layers it calls. "the rest" is the
difference to the whole. The start of an empty directory is taken off everywhere.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any, Final

import box.data.format
import box.index.sorted_build
import box.instance.loader
import box.instance.local_recovery
import box.journal.reader
import box.journal.snapshot
import box.journal.split_rows
import box.journal.xlog
import box.txn.fast_run
import box.txn.log_fold
import box.txn.space_load
from box import Node
from test.bench.data_start import FIGURES

_SCRIPT: Final = Path(__file__).with_name("log_start.lua")
_ROUNDS: Final = 3
_REST: Final = "the rest"


class Layers:
    """The seconds of each layer. Layers that call each other are told apart."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open: list[float] = []
        """For each layer that is running, the time that the layers below it have taken so far."""

    def call(self, layer: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Call a function as a part of a layer."""
        start = thread_time()
        self._open.append(0.0)
        try:
            return function(*args, **named)
        finally:
            taken = thread_time() - start
            self.seconds[layer] = self.seconds.get(layer, 0.0) + taken - self._open.pop()
            if self._open:
                self._open[-1] += taken

    def function(self, layer: str, owner: Any, name: str) -> None:
        """Put a function of a module or a class into a layer."""
        original = getattr(owner, name)
        setattr(owner, name, lambda *args, **named: self.call(layer, original, *args, **named))

    def generator(self, layer: str, owner: Any, name: str) -> None:
        """Put the steps of a generator into a layer."""
        original = getattr(owner, name)

        def steps(*args: Any, **named: Any) -> Iterator[Any]:
            made, end = original(*args, **named), object()
            while (step := self.call(layer, next, made, end)) is not end:
                yield step

        setattr(owner, name, steps)


def _install(layers: Layers) -> None:
    function, generator = layers.function, layers.generator
    function("read the file", box.journal.reader.BlockReader, "_fill")
    for name in ("next_block", "next_blocks"):
        function("blocks: checksum, Zstandard", box.journal.xlog.XlogDecoder, name)
    for name in ("plain_runs", "split_block"):
        function("find header and body", box.journal.reader, name)
    function("decode bodies of the log", box.journal.split_rows, "decode_rests")
    generator("find header and body", box.journal.snapshot, "decode_tuples_in_steps")
    compiled = box.data.format._compile_validate_many

    def compile_in_layer(*args: Any) -> Callable[..., Any]:
        validate = compiled(*args)
        return lambda raws: layers.call("decode and check the tuples", validate, raws)

    box.data.format._compile_validate_many = compile_in_layer  # type: ignore[assignment]
    function("primary keys and index", box.txn.space_load.SpaceLoad, "add")
    function("primary keys and index", box.txn.fast_run, "store_tuples")
    function("changes by key", box.txn.log_fold, "_fold_rows")
    function("changes by key: index", box.txn.log_fold._Fold, "settle")
    function("new tuples of a run", box.txn.log_fold, "_store_all")
    function("turns and runs of the log", box.instance.loader.LogLoader, "add_run")
    generator("decode again, make secondary keys", box.txn.space_load, "_fill_all")
    generator("sort secondary keys", box.txn.space_load, "fill")
    function("leaves of the trees", box.index.sorted_build.SortedBuild, "append")
    generator("leaves of the trees", box.index.sorted_build.SortedBuild, "finish")


async def _start(directory: str) -> dict[str, float]:
    """Start from a directory in this process. Returns the seconds of the layers."""
    layers = Layers()
    _install(layers)
    recovery: Any = box.instance.local_recovery.LocalRecovery
    read = recovery.read
    whole = 0.0

    async def timed(self: Any) -> None:
        nonlocal whole
        start = thread_time()
        await read(self)
        whole = thread_time() - start

    recovery.read = timed
    node = Node(directory, log_level=4, log=f"{directory}/layers.log", checkpoint_interval=0, memtx_memory=1 << 30)
    await node.start()
    await node.stop()
    return {**layers.seconds, _REST: whole - sum(layers.seconds.values())}


def _measured(directory: Path) -> dict[str, float]:
    """Return the median seconds of the layers of some starts, each in a process of its own."""
    rounds: list[dict[str, float]] = []
    command = [sys.executable, "-m", "test.bench.start_layers", "--directory", str(directory)]
    for _ in range(_ROUNDS):
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        rounds.append({name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)})
    return {name: median(found.get(name, 0.0) for found in rounds) for name in rounds[0]}


def _fill(directory: Path, rows: int, arguments: list[str]) -> None:
    directory.mkdir()
    command = [sys.executable, "-m", "console", str(_SCRIPT), str(directory), "fill", str(rows), *arguments]
    subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m test.bench.start_layers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="figures of test.bench.data_start; default: all")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.directory:
        for name, seconds in asyncio.run(_start(options.directory)).items():
            print(f"{name} {seconds}")
        return
    with tempfile.TemporaryDirectory(prefix="bench") as directory:
        _fill(Path(directory) / "empty", 0, ["1"])
        empty = _measured(Path(directory) / "empty")
        for number, figure in enumerate(options.figures or FIGURES):
            _fill(Path(directory) / str(number), options.rows, FIGURES[figure])
            found = _measured(Path(directory) / str(number))
            taken = {name: (value - empty.get(name, 0.0)) / options.rows * 1e6 for name, value in found.items()}
            print(f"{figure}: {sum(taken.values()):.2f} microseconds a row")
            for name, value in sorted(taken.items(), key=lambda item: -item[1]):
                print(f"    {name:<36} {value:6.2f}", flush=True)


if __name__ == "__main__":
    main()
