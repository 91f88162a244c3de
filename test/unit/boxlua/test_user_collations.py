"""Collations of users: all options of ICU, in keys, formats, SQL and key definitions."""

from __future__ import annotations

import pytest

from box.data import _icu

from .box_support import Box, Run

pytestmark = pytest.mark.skipif(_icu.library() is None, reason="no ICU library")

_SORTED = """
function sorted(options, ...)
    box.internal.collation.create('c', 'ICU', '', options)
    local s = box.schema.space.create('x')
    s:create_index('pk', {parts = {{1, 'string', collation = 'c'}}})
    for _, v in ipairs({...}) do pcall(s.insert, s, {v}) end
    local r = {}
    for _, t in s:pairs() do r[#r + 1] = t[1] end
    s:drop()
    box.internal.collation.drop('c')
    return table.concat(r, ' ')
end
"""


@pytest.mark.parametrize(
    ("options", "words", "expected"),
    [
        ("{strength = 'primary'}", "b A a é e B", "A b é"),
        ("{strength = 'secondary'}", "b A a é e B", "A b e é"),
        ("{case_first = 'upper_first'}", "b A a B", "A a B b"),
        ("{case_first = 'lower_first'}", "B b A a", "a A b B"),
        ("{numeric_collation = 'on'}", "a10 a2 a1", "a1 a2 a10"),
        ("{numeric_collation = 'OFF'}", "a10 a2 a1", "a1 a10 a2"),
        ("{french_collation = 'on'}", "cote coté côte côté", "cote côte coté côté"),
        ("{}", "cote coté côte côté", "cote coté côte côté"),
        ("{alternate_handling = 'shifted'}", "a-c ab a-b", "ab a-c"),
        ("{alternate_handling = 'shifted', strength = 'quaternary'}", "a-c ab a-b", "a-b ab a-c"),
        ("{strength = 'primary', case_level = 'on'}", "A a á B", "a A B"),
        ("{strength = 'Identical'}", "b a", "a b"),
    ],
)
def test_every_option_orders(run: Run, options: str, words: str, expected: str) -> None:
    """An index whose key has a user's collation keeps ICU's order and uniqueness."""

    async def body(box: Box) -> None:
        await box(_SORTED)
        assert await box(f"return sorted({options}, unpack(('{words}'):split(' ')))") == expected

    run(body)


def test_a_used_collation_stays(run: Run) -> None:
    """A collation that an index or a format refers to cannot be dropped; its name is shown where it is used."""

    async def body(box: Box) -> None:
        await box("co = box.internal.collation co.create('own', 'ICU', 'ru', {strength = 'primary'})")
        await box("s = box.schema.space.create('s')")
        await box("s:create_index('pk', {parts = {{1, 'string', collation = 'own'}}})")
        text = "Can't drop collation own : collation is referenced by "
        assert await box.fails("co.drop('own')") == text + "index"
        assert await box("return s.index.pk.parts[1].collation") == "own"
        await box("s:insert{'Ёж', 1}")
        assert await box("return s:get{'ёж'}[2], s:select('ЁЖ', {iterator = 'EQ'})[1][2]") == [1, 1]
        await box("s:drop() s = box.schema.space.create('s', {format = {{'n', 'string', collation = 'own'}}})")
        assert await box.fails("co.drop('own')") == text + "space format"
        await box("s:drop() co.drop('own')")
        assert await box("return co.exists('own')") is False

    run(body)


def test_an_id_is_used_again(run: Run) -> None:
    """A collation that is made anew under the same id and name has its own order."""

    async def body(box: Box) -> None:
        await box(_SORTED)
        assert await box("return sorted({strength = 'primary'}, 'b', 'A', 'a')") == "A b"
        assert await box("return sorted({strength = 'tertiary'}, 'b', 'A', 'a')") == "a A b"
        assert await box("return sorted({case_first = 'upper_first'}, 'b', 'A', 'a')") == "A a b"

    run(body)


def test_binary_collations_of_users(run: Run) -> None:
    """A collation of type BINARY compares bytes."""

    async def body(box: Box) -> None:
        await box("box.internal.collation.create('bytes', 'BINARY', '', {})")
        await box("s = box.schema.space.create('s')")
        await box("s:create_index('pk', {parts = {{1, 'string', collation = 'bytes'}}})")
        await box("s:insert{'a'} s:insert{'B'} s:insert{'é'}")
        assert await box("return s:select(), s.index.pk.parts[1].collation") == [[["B"], ["a"], ["é"]], "bytes"]

    run(body)


def test_queries_compare_by_them(run: Run) -> None:
    """SQL declares, compares, groups and orders by a user's collation, and names it in PRAGMA."""

    async def body(box: Box) -> None:
        await box("box.internal.collation.create('ci', 'ICU', '', {strength = 'primary'})")
        await box("box.internal.collation.create('up', 'ICU', '', {case_first = 'upper_first'})")
        await box("function q(t) return box.execute(t).rows end")
        await box('box.execute [[create table t (id int primary key, a string collate "ci", b string collate "up")]]')
        await box("box.execute [[insert into t values (1, 'a', 'a'), (2, 'A', 'A'), (3, 'B', 'B'), (4, 'b', 'b')]]")
        assert await box("return q[[select count(*) from t group by a order by 1]]") == [[2], [2]]
        assert await box("return q[[select b from t order by b]]") == [["A"], ["a"], ["B"], ["b"]]
        assert await box("return q[[select id from t where a = 'A' order by id]]") == [[1], [2]]
        assert await box("return q[[select id from t where b = 'A']]") == [[2]]
        assert await box("return q[[select id from t where b = 'A' collate \"ci\" order by id]]") == [[1], [2]]
        assert await box("return q[[select a like 'A' from t where id = 1]]") == [[True]]
        assert "Illegal mix of collations" in await box.fails(
            "local _, e = box.execute[[select a from t where a = b]] error(e)"
        )
        await box('box.execute [[create index ib on t (b collate "ci")]]')
        assert await box("return q[[pragma index_info(t.ib)]]") == [[0, 2, "B", 0, "ci", "string"]]
        assert await box("return box.space.T:format()[2].collation == box.internal.collation.id_by_name('ci')") is True
        await box('box.execute [[set session "sql_full_metadata" = true]]')
        assert await box("return box.execute([[select a from t]]).metadata[1].collation") == "ci"
        assert "Dupl" in await box.fails("local _, e = box.execute[[create unique index ia on t (a)]] error(e)")
        await box("box.execute [[create view v as select a from t]] box.space.V:drop()")

    run(body)


def test_key_definitions_use_them(run: Run) -> None:
    """`key_def` finds a user's collation by name and by id."""

    async def body(box: Box) -> None:
        await box("box.internal.collation.create('ci', 'ICU', '', {strength = 'primary'})")
        await box("kd = require('key_def').new{{fieldno = 1, type = 'string', collation = 'ci'}}")
        assert await box("return kd:compare({'a'}, {'A'}), kd:totable()[1].collation") == [0, "ci"]
        number = "box.internal.collation.id_by_name('ci')"
        await box(f"kd = require('key_def').new{{{{fieldno = 1, type = 'string', collation_id = {number}}}}}")
        assert await box("return kd:compare({'a'}, {'A'}), kd:compare({'a'}, {'B'})") == [0, -1]
        new = "require('key_def').new{{fieldno = 1, type = 'string', %s}}"
        text = "Wrong index options (field 1): collation was not found by ID"
        assert await box.fails(new % "collation_id = 3000") == text
        assert await box.fails(new % "collation = 'nope'") == 'Unknown collation: "nope"'

    run(body)
