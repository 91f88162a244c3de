"""`python -m test.bench.growth`: measures how the time of public calls grows with their data, beside Tarantool.

Each scenario of growth.lua is timed, in processor time, with n, 10 n and, if it is quick, 100 n items. The exponent is
the slope of the last two times on logarithmic scales: 1 means linear growth, 2 means quadratic growth. A `!` marks
scenarios that grow faster than in Tarantool. No time makes the run fail.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from test.bench.__main__ import compiled_modules, tarantool_command

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_PROGRAM = _HERE / "growth.lua"
OWN_COMMAND = (sys.executable, "-m", "console")
_LINEAR = 1.2
"""Exponents up to this one count as linear, and are never marked."""
_MARGIN = 0.15
"""The difference to Tarantool's exponent up to which a greater one is not marked."""
_DEADLINE = 1800
"""Seconds for one process."""


@dataclass(slots=True)
class Growth:
    """The times of one scenario: pairs (size, microseconds) by rising size; empty if it failed."""

    name: str
    times: list[tuple[int, float]] = field(default_factory=list)

    @property
    def exponent(self) -> float | None:
        """The slope of the last two times on logarithmic scales, None with fewer than two."""
        if len(self.times) < 2:
            return None
        (size, time), (larger_size, larger_time) = self.times[-2:]
        return math.log(larger_time / time) / math.log(larger_size / size)


def names(command: tuple[str, ...]) -> list[str]:
    """Return the names of all scenarios, in their order."""
    with tempfile.TemporaryDirectory(prefix="growth") as directory:
        done = subprocess.run(
            [*command, str(_PROGRAM), directory, "list"], capture_output=True, text=True, cwd=_ROOT, check=True
        )
    return done.stdout.split()


def measure(command: tuple[str, ...], wanted: list[str], scale: float = 1.0) -> dict[str, Growth]:
    """Run scenarios and return their times; after a crash another process runs those that are left."""
    results: dict[str, Growth] = {}
    left = list(wanted)
    while left:
        last = None
        for growth in _run(command, left, scale):
            results[growth.name] = last = growth
        if last is None:
            break
        left = left[left.index(last.name) + 1 :]
    return results


def _run(command: tuple[str, ...], wanted: list[str], scale: float) -> Iterator[Growth]:
    with tempfile.TemporaryDirectory(prefix="growth") as directory:
        done = subprocess.run(
            [*command, str(_PROGRAM), directory, str(scale), *wanted],
            stdout=subprocess.PIPE,
            stderr=sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL,
            text=True,
            cwd=_ROOT,
            timeout=_DEADLINE,
            check=False,
        )
    growth: Growth | None = None
    for line in done.stdout.splitlines():
        name, *figures = line.split()
        if growth is None or growth.name != name:
            if growth is not None:
                yield growth
            growth = Growth(name)
        if figures:
            growth.times.append((int(figures[0]), float(figures[1])))
    if growth is not None:
        yield growth


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _row(own: Growth, others: Growth | None) -> str:
    size, time = own.times[-1] if own.times else (None, None)
    theirs = dict(others.times).get(size) if others is not None and size is not None else None
    exponents = own.exponent, None if others is None else others.exponent
    marked = exponents[0] is not None and exponents[0] > max(_LINEAR, (exponents[1] or 1.0) + _MARGIN)
    texts = ["" if exponent is None else f"{exponent:.2f}" for exponent in exponents]
    ratio = f"{time / theirs:.2f}" if time and theirs else ""
    mark = " !" if marked else ""
    return f"| {own.name} | {size} | {_number(time)} | {_number(theirs)} | {ratio} | {texts[0]}{mark} | {texts[1]} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m test.bench.growth", description=__doc__)
    parser.add_argument("names", nargs="*", help="the beginnings of scenarios' names; default: all scenarios")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all sizes")
    args = parser.parse_args()
    with compiled_modules():
        wanted = [name for name in names(OWN_COMMAND) if not args.names or name.startswith(tuple(args.names))]
        own = measure(OWN_COMMAND, wanted, args.scale)
        tarantool = tarantool_command()
        others = measure(tarantool, wanted, args.scale) if tarantool is not None else {}
    print(
        "| call | size | this node, us | Tarantool, us | ratio | exponent | Tarantool's |\n"
        "|---|---:|---:|---:|---:|---:|---:|"
    )
    for name in wanted:
        print(_row(own.get(name, Growth(name)), others.get(name)))


if __name__ == "__main__":
    main()
