"""Notes on errors: how to mend a statement whose error, that of Tarantool, leaves it open."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pytest

from box import dbapi
from box.errors import BoxError
from box.sync import Node


@pytest.fixture(scope="module")
def node() -> Any:
    with Node(log_level=1, wal_mode="none", memtx_use_mvcc_engine=True) as node:
        node.execute('CREATE TABLE "users" ("id" INTEGER PRIMARY KEY, "Name" STRING)')
        yield node


def _notes(node: Node, text: str, params: tuple[Any, ...] = ()) -> list[str]:
    """Return the notes of the error that a statement raises, which are the same in both interfaces."""
    with pytest.raises(BoxError) as first:
        node.execute(text, params)
    with dbapi.connect(node) as connection, pytest.raises(dbapi.ProgrammingError) as second:
        connection.cursor().execute(text, params)
    found: list[str] = getattr(first.value, "__notes__", [])
    assert found == getattr(second.value, "__notes__", [])
    assert str(first.value) == str(second.value)
    return found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT * FROM users", "users"),
        ("DROP TABLE users", "users"),
        ("DELETE FROM Users", "users"),
        ('SELECT id FROM "users"', "id"),
        ('SELECT u.name FROM "users" AS u', "Name"),
        ('SELECT 1 FROM "users" AS u WHERE EXISTS (SELECT 1 FROM "users" AS v WHERE v."id" = u.id LIMIT 1)', "id"),
        ('SELECT "id" FROM "users" ORDER BY name', "Name"),
        ('SELECT "id" FROM "users" UNION SELECT 1 AS id ORDER BY id', "id"),
        ('INSERT INTO "users" (id) VALUES (1)', "id"),
        ("UPDATE \"users\" SET name = 'x'", "Name"),
        ('DELETE FROM "users" WHERE id = 1', "id"),
    ],
)
def test_a_name_in_other_letters_is_advised_to_be_quoted(node: Node, text: str, name: str) -> None:
    expected = f'SQL folds names without quotes to upper case: write "{name}" in double quotes.'
    assert _notes(node, text) == [expected]


@pytest.mark.parametrize("text", ["SELECT * FROM nobody", 'SELECT x FROM "users"', "SELECT", "SELECT a.b"])
def test_a_name_that_is_missing_altogether_gets_no_note(node: Node, text: str) -> None:
    assert _notes(node, text) == []


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Decimal("1.5"), "Decimal: pass a float or a str"),
        (uuid.UUID(int=7), "UUID: pass its str or bytes"),
        (datetime.datetime.now(datetime.UTC), "datetime: pass a text such as that of isoformat()"),
    ],
)
def test_a_parameter_of_a_type_unknown_to_sql_is_advised_to_be_converted(node: Node, value: Any, advice: str) -> None:
    expected = [f"SQL of Tarantool 2.8 has no parameters of type {advice}, or use the methods of the space."]
    assert _notes(node, 'SELECT * FROM "users" WHERE "Name" = ?', (value,)) == expected
    assert _notes(node, 'SELECT * FROM "users" WHERE "id" = ?', (value,)) == expected
