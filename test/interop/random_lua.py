"""Random parts of Lua programs: the texts of values. Equal seeds give equal parts."""

from __future__ import annotations

import random

NUMBERS = ["0", "1", "-1", "2", "3", "7", "1.5", "-0.25", "2.5", "1e15", "2^53", "-2^31", "1e300", "255", "65536"]
WIDE = ["5LL", "-1LL", "18446744073709551615ULL", "0/0", "1/0", "-1/0"]
TEXTS = ["''", "'a'", "'abc'", "'k1'", "'two words'", "'é'", "'a\\nb'", "'12'", "'0x1F'", "'~'", "'true'", "'a: b'"]
BYTES = ["'\\0'", "'\\255\\254'", "('x'):rep(70)", "'a\\0b'", "'ЮЯ'", "'\\t'"]
TABLES = ["{}", "{1, 2}", "{1, nil, 3}", "{a = 1}", "{{1}, {2}}", "{x = {y = 1}}", "{1, 'a', true}", "{[5] = 'e'}"]
OTHERS = [
    "nil",
    "box.NULL",
    "true",
    "false",
    "rawequal",
    "function() end",
    "box.tuple.new{1, 'a'}",
    "coroutine.create(print)",
]
"""Functions are `rawequal`, which both nodes have in C, and Lua functions; `print` is in C only in Tarantool."""


class RandomLua:
    """Random parts of programs: values of all types, and lists of arguments, some of them wrong or too short."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: str) -> str:
        """Return one of the choices."""
        return self.random.choice(choices)

    def word(self, words: str) -> str:
        """Return one of the words of a text."""
        return self.random.choice(words.split())

    def quoted(self, words: str) -> str:
        """Return one of the words of a text as the literal of a string."""
        return f"'{self.word(words)}'"

    def some(self, choices: list[str], most: int) -> list[str]:
        """Return up to `most` different choices."""
        return self.random.sample(choices, min(len(choices), self.random.randrange(most + 1)))

    def chance(self, share: float) -> bool:
        """Return true in this share of the calls."""
        return self.random.random() < share

    def number(self) -> str:
        """Return the text of a number."""
        return self.random.choice(NUMBERS)

    def small(self, low: int = -2, high: int = 8) -> str:
        """Return the text of a small whole number."""
        return str(self.random.randint(low, high))

    def text(self) -> str:
        """Return the literal of a string."""
        return self.random.choice(TEXTS)

    def table(self) -> str:
        """Return the text of a table."""
        return self.random.choice(TABLES)

    def plain(self) -> str:
        """Return a number, a string or a boolean."""
        return self.one(self.number(), self.text(), "true", "false")

    def value(self) -> str:
        """Return any value as Lua text."""
        kinds = (NUMBERS, NUMBERS, TEXTS, TEXTS, TABLES, TABLES, WIDE, BYTES, OTHERS)
        return self.random.choice(self.random.choice(kinds))

    def values(self, most: int = 3) -> str:
        """Return up to `most` values, separated by commas."""
        return ", ".join(self.value() for _ in range(self.random.randrange(most + 1)))

    def arguments(self, *right: str) -> str:
        """Return these arguments, separated by commas; in two calls of five one is wrong, missing or added."""
        chosen = list(right)
        if self.chance(0.6):
            return ", ".join(chosen)
        place = self.random.randrange(len(chosen) + 1)
        if place == len(chosen):
            chosen.append(self.value())
        elif self.chance(0.75):
            chosen[place] = self.value()
        else:
            del chosen[place:]
        return ", ".join(chosen)
