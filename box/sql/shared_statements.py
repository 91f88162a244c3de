"""Texts that differ only in their constants share one parsed statement, and so its analysis and its SQL for SQLite.

```
text      SELECT name FROM t WHERE id = 17 AND v < 2.5 ORDER BY 1
shape     SELECT name FROM t WHERE id = ?i AND v < ?f ORDER BY ?i        (the marks stand for the bytes 0 and i, f or s)
values    17, 2.5, 1
```

One pass over a text finds its shape and its constants, without tokens. The first text of a shape is parsed. Its
constants become places for values, which then are given as those of parameters are. Unlike a parameter, a constant has
a type that the analysis knows: it is part of the shape.

A constant stays in the shape, as it is written, if more than its type matters:

- integers of more than 15 digits, doubles from 2^53 on and 0.0, hexadecimal numbers and BLOBs;
- constants that are no operands: `ORDER BY 1`, `GROUP BY 1`, LIKELIHOOD(), `'x'` as an alias, the 5 of VARCHAR(5).

In a query that compares its expressions with each other, as `SELECT a + 1 ... GROUP BY a + 1`, equal constants get one
place, and which ones are equal belongs to the shape.

Not shared are texts with parameters, whose authors vary the parameters; texts with comments; very long ones;
definitions; and wrong texts, whose errors have to tell positions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from box.sql import sql_nodes
from box.sql.aggregates import AGGREGATES
from box.sql.parse import parse_statement
from box.sql.raw_characters import is_utf8

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

_KNOWN: Final = 1000
"""The number of texts, of shapes and of statements that are kept."""
_LONGEST: Final = 16_384
"""Longer texts, in characters, are not shared: most of them have many rows, and each has another number of them."""
_CONSTANT: Final = re.compile(
    r"""
    (['"0-9.xX](?:
        (?<=')[^']*(?:''[^']*)*'(?!')
      | (?<=")[^"]*(?:""[^"]*)*"(?!")
      | (?<=[xX])(?<![A-Za-z0-9_$\u0080-\U0010ffff].)'[^']*'
      | (?<=[0-9.])(?<![A-Za-z0-9_$\u0080-\U0010ffff].)(?:
            (?<=0)[xX][0-9a-fA-F]+
          | (?:(?<=[0-9])[0-9]*\.[0-9]*|(?<=\.)[0-9]+)(?:[eE][+-]?[0-9]+)?
          | (?<=[0-9])[0-9]*(?:[eE][+-]?[0-9]+)?
        )
    ))
    """,
    re.VERBOSE | re.DOTALL,
)
"""Finds constants, and quoted names, in which there are none. The first characters are one set: that is what the
engine of regular expressions looks for quickly.
"""
_MAY_BE_SHARED: Final = re.compile(r"\s*(?:SELECT|VALUES|WITH|INSERT|REPLACE|UPDATE|DELETE)\b", re.IGNORECASE).match
_UNSHARED: Final = re.compile(r"[?:@$#]|--|/\*").search
"""Finds parameters and comments outside of constants."""
_DIGITS_MAX: Final = 15
"""Integers of so many digits are below 2^53."""
_DOUBLE_MAX: Final = 2.0**53
_MARKS: Final = {int: "\0i", float: "\0f", str: "\0s"}
"""What stands for a constant in a shape. No text with a NUL is shared."""

_LEAVES: Final = frozenset((sql_nodes.Literal, sql_nodes.Name, sql_nodes.Star, str, int, bool, type(None)))
"""Types of what has nothing inside."""

parsed_text = lru_cache(_KNOWN)(parse_statement)
"""A cached parser: parsed statements may be shared, because nothing changes them."""


class _Shape:
    """What the parser knows of all texts of a shape."""

    __slots__ = ("compares", "fixed")

    def __init__(self, fixed: list[int], *, compares: bool) -> None:
        self.fixed = fixed
        """The numbers of the constants that are no operands."""
        self.compares = compares
        """True if it matters which constants are equal."""


_Constant = int | float | str
_shapes: Final[dict[str, _Shape]] = {}
_statements: Final[dict[Hashable, sql_nodes.Parsed]] = {}


@lru_cache(_KNOWN)
def shared_statement(text: str) -> tuple[sql_nodes.Parsed, Sequence[_Constant]]:
    """Parse a statement that is run without parameters. Returns it with the values of its constants.

    Raises:
        ClientError: see `parse_statement`.
    """
    if len(text) > _LONGEST or "\0" in text or not is_utf8(text):
        return parsed_text(text), ()
    parts = _CONSTANT.split(text)
    raws = parts[1::2]
    values = list(map(_value_of, raws))
    parts[1::2] = [raw if value is None else _MARKS[type(value)] for raw, value in zip(raws, values, strict=True)]
    name = "".join(parts)
    shape = _shapes.get(name)
    if shape is not None:
        key, given = _key_and_values(name, shape, raws, values)
        known = _statements.get(key)
        if known is not None:
            return known, given
    elif _MAY_BE_SHARED(name) is None or _UNSHARED(name):
        return parsed_text(text), ()
    return _first_of_shape(text, name, raws, values)


def _key_and_values(
    name: str, shape: _Shape, raws: list[str], values: list[_Constant | None]
) -> tuple[tuple[str, tuple[str, ...], tuple[int, ...] | None], Sequence[_Constant]]:
    """Return what identifies the statement of a text, and the values of its constants.

    The key has the name of the shape, its constants that are no operands, and the places of the others if it matters
    which are equal.
    """
    fixed = tuple([raws[number] for number in shape.fixed]) if shape.fixed else ()
    given = [value for value in values if value is not None]
    if not shape.compares:
        return (name, fixed, None), given
    seen: dict[tuple[type, _Constant], int] = {}
    places = tuple([seen.setdefault((type(value), value), len(seen)) for value in given])
    return (name, fixed, places), [value for _, value in seen]


def _first_of_shape(
    text: str, name: str, raws: list[str], values: list[_Constant | None]
) -> tuple[sql_nodes.Parsed, Sequence[_Constant]]:
    """Parse a text, and keep the statement for all texts with its shape, whose name is `name`. Errors as
    `shared_statement`.
    """
    parsed = parse_statement(text)
    if parsed.trailing is not None or parsed.parameters:
        return parsed, ()
    by_value, compares = _uses(parsed.statement)
    operands = _operands(parsed.literals, by_value, text, values)
    fixed = [number for number, value in enumerate(values) if value is not None and number not in operands]
    shape = _Shape(fixed, compares=compares)
    key, given = _key_and_values(name, shape, raws, values)
    numbers = [number for number, value in enumerate(values) if value is not None]
    for number, place in zip(numbers, key[2] or range(len(given)), strict=True):
        if number in operands:
            operands[number].place = place
    parsed.key, parsed.constants, parsed.literals = key, len(given), []
    if len(_statements) >= _KNOWN:
        _shapes.clear()
        _statements.clear()
    _shapes[name], _statements[key] = shape, parsed
    return parsed, given


# --- the constants of a text ---


def _value_of(raw: str) -> _Constant | None:
    """Return the value of a constant that is taken out of its text; None for any other, and for a name."""
    first = raw[0]
    if first == "'":
        return raw[1:-1].replace("''", "'")
    if raw.isdigit():
        return int(raw) if len(raw) <= _DIGITS_MAX else None
    if first in '"xX' or raw[1:2] in ("x", "X"):
        return None
    value = float(raw)
    return value if 0 < value < _DOUBLE_MAX else None


def _operands(
    literals: list[tuple[int, sql_nodes.Literal]], by_value: set[int], text: str, values: list[_Constant | None]
) -> dict[int, sql_nodes.Literal]:
    """Return the constants of which only the type matters, by their numbers in the text; not those with the ids
    `by_value`.
    """
    found: dict[int, sql_nodes.Literal] = {}
    by_start = dict(literals)
    for number, (match, value) in enumerate(zip(_CONSTANT.finditer(text), values, strict=True)):
        literal = by_start.get(match.start())
        if literal is None or id(literal) in by_value:
            continue
        # The parser decides what a constant is: `a.5` is a name and a double.
        if type(literal.value) is type(value) and literal.value == value:
            found[number] = literal
    return found


def _uses(statement: sql_nodes.Statement) -> tuple[set[int], bool]:
    """Return the ids of the constants whose values the analysis has to know; and whether the statement may compare
    expressions of a query with each other: those of ORDER BY, GROUP BY and aggregates with its result columns.
    """
    fixed: set[int] = set()
    compares = False
    rest: list[object] = [statement]
    while rest:
        node = rest.pop()
        kind = type(node)
        if kind in _LEAVES:
            continue
        terms: Sequence[object] = ()
        if isinstance(node, sql_nodes.Select):
            terms = [term.expr for term in node.order_by or ()]
            compares |= bool(terms or node.operators)
        elif isinstance(node, sql_nodes.Core):
            terms = node.group_by or ()
            compares |= bool(terms or node.having or node.is_distinct)
        elif isinstance(node, sql_nodes.FunctionCall):
            terms = node.args if node.name == "LIKELIHOOD" else ()
            compares |= node.name in AGGREGATES
        for term in terms:
            while isinstance(term, sql_nodes.Collate | sql_nodes.Unary):
                term = term.operand
            fixed.add(id(term))
        rest += sql_nodes.children(node)
    return fixed, compares
