"""`python -m test.bench.indexes [KIND...]`: measures operations on each kind of secondary index, beside Tarantool.

Figures are microseconds of processor time an operation, because other programs disturb that less than wall time. The
ratio of TREE is the standard for the ratios of the other kinds. Tarantool is found as for `make bench`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from test.bench.__main__ import Values, compiled_modules, printed, tarantool_command

_KINDS = ("tree", "hash", "rtree", "bitset", "multikey", "functional")
_SCRIPT = Path(__file__).with_suffix(".lua")


def _figures(executable: list[str], kind: str, count: int, rounds: int) -> Values:
    """Return the best figures of some rounds, in microseconds by name."""
    best: Values = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="bench") as directory:
            found = printed([*executable, str(_SCRIPT), directory, str(count), kind])
        best = {name: min(value, best.get(name, value)) for name, value in found.items()}
    return best


def _lines(ours: Values, others: Values) -> list[str]:
    lines = []
    for name, mine in ours.items():
        theirs = others.get(name)
        ratio = f"{theirs:.3g} | {mine / theirs:.1f}" if theirs else " | "
        lines.append(f"| {name.replace('.', ': ').replace('_', ' ')} | {mine:.3g} | {ratio} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m test.bench.indexes", description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*_KINDS, []], help="kinds of indexes; default: all")
    parser.add_argument("--count", type=int, default=20_000, help="the number of tuples")
    parser.add_argument("--rounds", type=int, default=2, help="how often each kind is measured")
    args = parser.parse_args()
    tarantool = tarantool_command()
    print("| figure | this node, us | Tarantool, us | ratio |\n|---|---:|---:|---:|")
    with compiled_modules():
        for kind in args.kinds or _KINDS:
            ours = _figures([sys.executable, "-m", "console"], kind, args.count, args.rounds)
            others = _figures(list(tarantool), kind, args.count, args.rounds) if tarantool else {}
            print("\n".join(_lines(ours, others)), flush=True)


if __name__ == "__main__":
    main()
