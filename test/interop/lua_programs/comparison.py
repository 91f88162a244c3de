"""Runs programs on two nodes and finds the statements that they answer differently."""

from __future__ import annotations

from dataclasses import dataclass, field

from test.interop.console_programs import CRASHED, LOST, ConsoleNode, normalised
from test.interop.lua_programs.kinds import MODULES, program


@dataclass
class Comparison:
    """What the programs of one class have shown.

    `differences` has the first one of each program, as text: seed, statement, both replies. `count` is the number
    of statements that load no module, `unequal` that of those with different replies, first or not.
    """

    differences: list[str] = field(default_factory=list)
    count: int = 0
    unequal: int = 0

    @property
    def equal(self) -> float:
        """The percentage of equal replies."""
        return 100 - 100 * self.unequal / max(self.count, 1)


def compare(kind: str, seeds: range, ours: ConsoleNode, theirs: ConsoleNode) -> Comparison:
    """Run the programs of a class on both nodes; what makes Tarantool crash or hang is not compared."""
    result = Comparison()
    for seed in seeds:
        statements = program(kind, seed)
        here, there = ours.replies(statements), theirs.replies(statements)
        if LOST in (here[-1], there[-1]) or CRASHED in (here[-1], there[-1]):
            ours.stop()
            theirs.stop()  # so that later programs find both in the same state
        if there[-1] in (CRASHED, LOST):
            statements = statements[: len(there) - 1]
        result.count += len(statements) - len(MODULES)
        unlike = [number for number in range(len(statements)) if _reply(here, number) != _reply(there, number)]
        result.unequal += len(unlike)
        if unlike:
            first = unlike[0]
            one, other = ("".join(replies[first : first + 1]) for replies in (here, there))
            result.differences.append(f"{kind} {seed}: {statements[first]}\n    {one!r}\n    {other!r}")
    return result


def _reply(replies: list[str], number: int) -> str:
    return normalised(replies[number]) if number < len(replies) else "<nothing>"
