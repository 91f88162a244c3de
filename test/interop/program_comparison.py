"""Runs generated programs on Lunabox and on Tarantool, and finds the first statement of each with different replies."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from test.interop.console_programs import CRASHED, LOST, ConsoleNode, console_node, normalised


class Classes(Protocol):
    """Classes of programs by name."""

    @property
    def names(self) -> list[str]:
        """The names of the classes."""

    def modules(self, name: str) -> list[str]:
        """Return the statements with which every program of a class begins; they are not counted."""

    def program(self, name: str, seed: int) -> list[str]:
        """Return all statements of a program."""


@dataclass
class Comparison:
    """What the programs of one class have shown.

    `differences` has the first one of each program, as text: seed, statements, both replies. `count` is the number of
    statements up to there, without those that load modules: what follows a difference may differ because of it.
    """

    differences: list[str] = field(default_factory=list)
    count: int = 0

    @property
    def equal(self) -> float:
        """The percentage of equal replies."""
        return 100 - 100 * len(self.differences) / max(self.count, 1)


def compare(classes: Classes, name: str, seeds: Iterable[int], ours: ConsoleNode, theirs: ConsoleNode) -> Comparison:
    """Run the programs of a class on both nodes; what makes Tarantool crash or hang is not compared."""
    result, skipped = Comparison(), len(classes.modules(name))
    for seed in seeds:
        statements = classes.program(name, seed)
        here, there = ours.replies(statements), theirs.replies(statements)
        if {LOST, CRASHED} & {here[-1], there[-1]}:
            ours.stop()
            theirs.stop()  # so that later programs find both in the same state
        if there[-1] in (CRASHED, LOST):
            statements = statements[: len(there) - 1]
        for number, statement in enumerate(statements):
            result.count += number >= skipped
            one, other = (replies[number] if number < len(replies) else "<nothing>" for replies in (here, there))
            if _compared(one) != _compared(other):
                before = " ;; ".join(statements[skipped:number])
                result.differences.append(f"{name} {seed}: {before}\n  > {statement}\n    {one!r}\n    {other!r}")
                break
    return result


_UNLIKE = [
    (r"/tmp/lb\w+", "/tmp/lb"),  # where a node lives
    (r"(127\.0\.0\.1:|localhost:|port: |fd:? |fh: |Unable to kill )\d+", r"\1N"),  # what the system numbers
    (r"\b(lunabox|tarantool) (node\.lua|<running>)", r"node \2"),
    (r"interpretor_name: \S+", "interpretor_name: X"),
]


def _compared(reply: str) -> str:
    """Return a reply without what two nodes cannot have in common."""
    for pattern, text in _UNLIKE:
        reply = re.sub(pattern, text, reply)
    return normalised(reply)


def run_command(classes: Classes) -> None:
    """Compare the classes that the command's arguments name, and print differences and rates.

    The other node is that of `LUNABOX_TARANTOOL`, or `tarantool` on PATH.
    """
    parser = argparse.ArgumentParser(description="Compare generated console programs with a real Tarantool.")
    parser.add_argument("--kind", action="append", choices=classes.names, help="a class (default: all)")
    parser.add_argument("--count", type=int, default=100, help="programs of each class")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--mvcc", action="store_true", help="switch memtx_use_mvcc_engine on")
    options = parser.parse_args()
    tarantool = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
    if tarantool is None:
        sys.exit("no tarantool on PATH, nor in LUNABOX_TARANTOOL")
    lunabox = str(Path(sys.executable).with_name("lunabox"))
    seeds = range(options.seed, options.seed + options.count)
    with console_node(lunabox, options.mvcc) as ours, console_node(tarantool, options.mvcc) as theirs:
        for name in options.kind or classes.names:
            result = compare(classes, name, seeds, ours, theirs)
            print("\n".join(result.differences))
            found = len(result.differences)
            print(f"{name}: {result.count} statements, {found} differ, {result.equal:.2f} % equal", flush=True)
