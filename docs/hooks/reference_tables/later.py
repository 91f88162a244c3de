"""What Tarantool 2.11 has and 2.8.1 lacks, from facts/later_names.txt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from reference_tables.markdown import code, lines_of, table

HERE: Final = "here"
LEFT_OUT: Final = "left out"


@dataclass(frozen=True, slots=True)
class Later:
    """A name of 2.11, or all that begin with it if it ends with `*`; `text` says what it does or why it is left out."""

    name: str
    is_here: bool
    text: str

    def covers(self, name: str) -> bool:
        """Return whether a name is this one or one of its family."""
        head, star, tail = self.name.partition("*")
        return name.startswith(head) and (not tail or name.endswith(tail)) if star else name == head


@cache
def names() -> tuple[Later, ...]:
    """Return all names in the order of the file.

    Raises:
        ValueError: a line is malformed.
    """
    found = []
    for line in lines_of("later_names.txt"):
        name, status, text = line.split(" | ")
        if status not in (HERE, LEFT_OUT):
            raise ValueError(f"later_names.txt: {line}")
        found.append(Later(name, status == HERE, text))
    return tuple(found)


def table_of(which: str) -> str:
    """Return the table `here` or `left-out`."""
    is_here = which == HERE
    heads = ("name", "what it does" if is_here else "why")
    return table(heads, ((code(item.name), item.text) for item in names() if item.is_here is is_here))
