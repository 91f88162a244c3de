"""Statements are as deep as Tarantool 2.8.1 allows: by the stack of its parser, and by trees of 200 levels."""

from __future__ import annotations

import pytest

from box.errors import BoxError
from box.sql.parse import parse_statement

_NESTED = {
    "brackets": (93, "(", "1", ")"),
    "not": (94, "NOT ", "true", ""),
    "sums": (31, "1+(", "1", ")"),
    "calls": (31, "ABS(", "1", ")"),
    "cases": (19, "CASE WHEN true THEN ", "1", " END"),
    "queries": (18, "(SELECT ", "1", ")"),
}


def _nested(count: int, before: str, inner: str, after: str) -> str:
    return "SELECT " + before * count + inner + after * count


@pytest.mark.parametrize("what", _NESTED)
def test_the_stack_has_room_for_so_many_levels(what: str) -> None:
    first_wrong, *parts = _NESTED[what]
    parse_statement(_nested(first_wrong - 1, *parts))
    with pytest.raises(BoxError, match="parser stack limit reached"):
        parse_statement(_nested(first_wrong, *parts))


def test_queries_in_from_need_more_room() -> None:
    parse_statement("SELECT * FROM (" * 12 + "SELECT 1" + ")" * 12)
    with pytest.raises(BoxError, match="parser stack limit reached"):
        parse_statement("SELECT * FROM (" * 13 + "SELECT 1" + ")" * 13)


def test_a_tree_has_200_levels() -> None:
    parse_statement("SELECT " + "+".join(["1"] * 200))
    with pytest.raises(BoxError) as caught:
        parse_statement("SELECT " + "+".join(["1"] * 250))
    assert caught.value.message == "Number of nodes in expression tree 201 exceeds the limit (200)"


def test_brackets_are_no_level() -> None:
    parse_statement("SELECT " + "+".join(["((1))"] * 200))
