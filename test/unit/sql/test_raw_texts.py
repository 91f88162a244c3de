"""Texts that are not UTF-8 are compared and sorted byte by byte, beside all others."""

from __future__ import annotations

from typing import Any, Final

import pytest

from box.sql.raw_characters import characters, is_utf8, raw_place

from .conftest import Session, Start

_TEXTS: Final = (
    "a",
    "name",
    "name1",
    "name\udcff",
    "namf",
    "z",
    "\udcff",
    "",
    "é",
    "é\udc80",
    "\udc80",
    "\udced\udca0\udc80",
)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_SORTED: Final = sorted(_TEXTS, key=_bytes)


@pytest.fixture(params=["", "create index i on t (s)", "create index i on t (x)"])
def texts(start: Start, request: pytest.FixtureRequest) -> Session:
    """Create a table of such texts, with different indexes."""
    db = start()
    db.sql('create table t (id int primary key, s text, x scalar, c text collate "unicode_ci")')
    for number, text in enumerate(_TEXTS):
        db.sql("insert into t values (?, ?, ?, ?)", number, text, text, text)
    if request.param:
        db.sql(request.param)
    return db


@pytest.mark.parametrize("column", ["s", "x"])
def test_order(texts: Session, column: str) -> None:
    expected = [[text] for text in _SORTED]
    assert texts.sql(f"select {column} from t order by {column}") == expected
    assert texts.sql(f"select {column} from t order by {column} desc") == expected[::-1]
    assert texts.sql(f"select distinct {column} from t order by 1") == expected
    assert texts.sql(f"select {column} from t group by {column} order by 1") == expected
    assert texts.sql(f"select {column} from t union select {column} from t order by 1") == expected
    assert texts.sql(f"select min({column}), max({column}) from t") == [[_SORTED[0], _SORTED[-1]]]


@pytest.mark.parametrize("column", ["s", "x"])
@pytest.mark.parametrize("bound", _TEXTS)
def test_comparisons(texts: Session, column: str, bound: str) -> None:
    below = [[text] for text in _SORTED if _bytes(text) < _bytes(bound)]
    above = [[text] for text in _SORTED if _bytes(text) > _bytes(bound)]
    for given, params in (("?", [bound]), (f"'{bound}'", [])):
        assert texts.sql(f"select {column} from t where {column} < {given} order by {column}", *params) == below
        assert texts.sql(f"select {column} from t where {given} < {column} order by {column}", *params) == above
        assert texts.sql(f"select {column} from t where {column} = {given}", *params) == [[bound]]
        assert len(texts.sql(f"select {column} from t where {column} <> {given}", *params)) == len(_TEXTS) - 1
        assert texts.sql(f"select {column} from t where {column} in ({given}, 'no')", *params) == [[bound]]
    between = texts.sql(f"select {column} from t where {column} between 'name' and ? order by 1", bound)
    assert between == [[text] for text in _SORTED if b"name" <= _bytes(text) <= _bytes(bound)]


def test_joins_and_subqueries(texts: Session) -> None:
    ones = texts.sql("select count(*) from t a, t b where a.s < b.s")
    assert ones == [[len(_TEXTS) * (len(_TEXTS) - 1) // 2]]
    assert texts.value("select count(*) from t a, t b where a.s = b.s") == len(_TEXTS)
    assert texts.value("select count(*) from t where s in (select s from t where id > 2)") == len(_TEXTS) - 3
    assert texts.sql("with q (v) as (select s from t) select max(v) from q") == [[_SORTED[-1]]]
    assert texts.sql("select s from t except select s from t where s <= 'name' order by 1") == [
        [text] for text in _SORTED if _bytes(text) > b"name"
    ]


@pytest.mark.parametrize(
    "expr",
    [
        "s || 'x'",
        "upper(s || '')",
        "coalesce(s, 'x')",
        "case when s > 'b' then s else s end",
        "trim(s)",
        "substr(s, 1, 100)",
        "replace(s, '~', '!')",
        "cast(cast(s as varbinary) as string)",
        "greatest(s, 'a')",
        "ifnull(s, 1)",
    ],
)
def test_results_of_functions(texts: Session, expr: str) -> None:
    found = [row[0] for row in texts.sql(f"select {expr} from t")]
    assert [row[0] for row in texts.sql(f"select {expr} from t order by 1")] == sorted(found, key=_bytes)
    largest = max(found, key=_bytes)
    assert texts.sql(f"select distinct {expr} from t where {expr} >= ?", largest) == [[largest]]


def test_functions_alone(start: Start) -> None:
    """No row has such a text: a function makes it."""
    db = start()
    assert db.value("select cast(x'ff' as string) < 'b'") is False
    assert db.value("select cast(x'80' as string) < 'é'") is True
    assert db.sql("select * from (values (cast(x'80' as string)), ('é'), ('a')) order by 1") == [
        ["a"],
        ["\udc80"],
        ["é"],
    ]
    assert db.value("select typeof(cast(x'ff' as string))") == "string"
    assert db.sql("select typeof(v), hex(v) from (select cast(x'ff' as string) as v) where typeof(v) = 'string'") == [
        ["string", "FF"]
    ]
    assert db.value("select printf('%s', 'a') || cast(x'ff' as string)") == "a\udcff"


def test_rows_without_such_texts_are_read_as_before(texts: Session) -> None:
    assert texts.sql("select id from t where id = 2") == [[2]]
    assert texts.sql("select s, id + 1 from t where id < 2 order by id") == [["a", 1], ["name", 2]]


def test_changes(texts: Session) -> None:
    above = [text for text in _TEXTS if _bytes(text) > b"name"]
    assert texts.sql("update t set x = s || '!' where s > 'name'") == len(above)
    assert texts.value("select count(*) from t where x = s || '!'") == len(above)
    assert texts.sql("delete from t where s < 'name\udcff'") == sum(_bytes(text) < b"name\xff" for text in _TEXTS)
    texts.sql("create table u (s text primary key)")
    texts.sql("insert into u select s from t where s >= 'z' order by s desc")
    assert texts.sql("select s from u order by s") == [[text] for text in _SORTED if _bytes(text) >= b"z"]


def test_checks_and_triggers(start: Start) -> None:
    db = start()
    db.sql("create table t (id int primary key, s text, check (s < 'é'))")
    db.sql("create table log (id int primary key autoincrement, s text)")
    change = "insert into log (s) values (new.s || '!')"
    db.sql(f"create trigger g after insert on t for each row when new.s > 'b' begin {change}; end")
    db.sql("insert into t values (1, ?)", "\udc80")
    assert db.error("insert into t values (2, ?)", "\udcff")[0] == "CK_CONSTRAINT_FAILED"
    assert db.sql("select s from log") == [["\udc80!"]]


def test_one_query_before_and_after_such_a_text_comes(start: Start) -> None:
    db = start()
    db.sql("create table t (id int primary key, s text)")
    db.sql("insert into t values (1, 'é')")
    query = "select s from t where s < ? order by s"
    assert db.sql(query, "ü") == [["é"]]
    db.sql("insert into t values (2, ?)", "\udc80")
    assert db.sql(query, "ü") == [["\udc80"], ["é"]]
    db.sql("delete from t where id = 2")
    assert db.sql(query, "ü") == [["é"]]


def test_with_a_collation_they_come_last(texts: Session) -> None:
    """This is the documented difference: the others stay in their order."""
    found = [row[0] for row in texts.sql("select c from t order by c")]
    known = [text for text in found if is_utf8(text)]
    assert found[: len(known)] == known == ["", "a", "é", "name", "name1", "namf", "z"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", ["a", "b", "c"]),
        ("é\U0001f600", ["é", "\U0001f600"]),
        (" \udcc3x", [" ", "\udcc3x"]),
        ("\udcffabcd", ["\udcffabc", "d"]),
        ("\udced\udca0\udc80a", ["\udced\udca0\udc80", "a"]),
        ("\udc80\udcc1", ["\udc80", "\udcc1"]),
        ("\udce0", ["\udce0"]),
    ],
)
def test_characters(start: Start, text: str, expected: list[str]) -> None:
    """Tarantool 2.8.1 counts so."""
    assert list(characters(text)) == expected
    db = start()
    assert db.value("select length(?)", text) == len(expected)
    assert [db.value("select substr(?, ?, 1)", text, place) for place in range(1, len(expected) + 1)] == expected
    assert db.value("select substr(?, -1)", text) == expected[-1]
    assert db.value("select position(?, ?)", expected[-1], text) == len(expected)


def test_places_of_bytes() -> None:
    found: list[Any] = [raw_place(text) for text in ("", "aé", "a\udcff", "\udc80")]
    assert found == [None, None, 1, 0]
