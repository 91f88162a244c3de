"""Random parts of programs: Lua texts of values, and templates of statements whose places they fill."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence

Rules = Mapping[str, Sequence[str]]
"""Templates by the name of the place that one of them fills: `<name>` in another template."""

NUMBERS = ["0", "1", "-1", "2", "7", "1.5", "-0.25", "1e15", "2^53", "-2^31", "1e300", "5LL", "18446744073709551615ULL"]
TEXTS = ["''", "'a'", "'abc'", "'k1'", "'two words'", "'é'", "'a\\nb'", "'12'", "'0x1F'", "'~'", "'true'", "'a: b'"]
TABLES = ["{}", "{1, 2}", "{1, nil, 3}", "{a = 1}", "{{1}, {2}}", "{x = {y = 1}}", "{1, 'a', true}"]
OTHERS = ["nil", "box.NULL", "true", "false", "print"]
VALUES: Rules = {
    "number": NUMBERS,
    "small": [str(number) for number in range(-2, 9)],
    "text": TEXTS,
    "table": TABLES,
    "boolean": ["true", "false"],
    "plain": ["<number>", "<text>", "<boolean>"],
    "value": ["<number>", "<text>", "<table>", *OTHERS],
    "args": ["", "<value>", "<value>", "<value>, <value>", "<value>, <value>, <value>"],
}
"""The places that every template may have."""
_PLACE = re.compile(r"<(\w+)>")


class Source:
    """Random parts of programs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: str) -> str:
        """Return one of the choices."""
        return self.random.choice(choices)

    def number(self) -> str:
        """Return the text of a number."""
        return self.random.choice(NUMBERS)

    def small(self) -> str:
        """Return the text of a small whole number."""
        return str(self.random.randrange(-2, 9))

    def text(self) -> str:
        """Return the literal of a string."""
        return self.random.choice(TEXTS)

    def plain(self) -> str:
        """Return a number, a string or a boolean."""
        return self.one(self.number(), self.text(), "true", "false")

    def value(self) -> str:
        """Return a number, a string, a table or another value as Lua text."""
        return self.one(self.number(), self.text(), self.random.choice(TABLES), self.random.choice(OTHERS))

    def values(self, most: int = 3) -> str:
        """Return up to `most` values, separated by commas."""
        return ", ".join(self.value() for _ in range(self.random.randrange(most + 1)))

    def filled(self, template: str, rules: Rules) -> str:
        """Return a template with all its places filled, by the rules first and by `VALUES` else.

        Raises: KeyError for a place that has no rule.
        """

        def fill(place: re.Match[str]) -> str:
            choices = rules.get(place[1]) or VALUES[place[1]]
            return self.filled(self.random.choice(choices), rules)

        return _PLACE.sub(fill, template)


Program = Callable[[Source], list[str]]
"""Makes the statements of a program of one class."""


def steps_of(rules: Rules, *, start: Sequence[str] = (), least: int = 4, most: int = 8) -> Program:
    """Return a class of programs: the statements of `start`, then `least` to `most` random ones of the rule `step`."""

    def make(source: Source) -> list[str]:
        count = source.random.randint(least, most)
        return [source.filled(template, rules) for template in [*start, *["<step>"] * count]]

    return make
