"""Random parts of programs: Lua texts of values, and templates of statements whose places they fill."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from test.interop.random_lua import NUMBERS, TABLES, TEXTS, RandomLua

Rules = Mapping[str, Sequence[str]]
"""Templates by the name of the place that one of them fills: `<name>` in another template."""

VALUES: Rules = {
    "number": [*NUMBERS, "5LL", "18446744073709551615ULL"],
    "small": [str(number) for number in range(-2, 9)],
    "text": TEXTS,
    "table": TABLES,
    "boolean": ["true", "false"],
    "plain": ["<number>", "<text>", "<boolean>"],
    "value": ["<number>", "<text>", "<table>", "nil", "box.NULL", "true", "false", "rawequal"],
    "args": ["", "<value>", "<value>", "<value>, <value>", "<value>, <value>, <value>"],
}
"""The places that every template may have."""
_PLACE = re.compile(r"<(\w+)>")


class Source(RandomLua):
    """Random parts of programs, and templates filled with them."""

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
