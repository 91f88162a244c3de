"""`csv` reads a source chunk by chunk. Expected values were printed by a running Tarantool."""

from __future__ import annotations

import pytest

from .conftest import Lua

READS = """
local csv = require('csv')
local function records(text, size)
    local at, reads, found = 1, 0, {}
    local source = {read = function(_, count)
        reads = reads + 1
        local chunk = text:sub(at, at + count - 1)
        at = at + #chunk
        return chunk
    end}
    for _, fields in csv.iterate(source, {chunk_size = size}) do
        found[#found + 1] = {reads, fields}
    end
    return found
end
"""


@pytest.mark.parametrize(
    ("text", "size", "records"),
    [
        ("a,b\nc,d\n", 4, [[1, ["a", "b"]], [2, ["c", "d"]]]),
        ("a,b\nc,d\n", 3, [[2, ["a", "b"]], [3, ["c", "d"]]]),
        ('a,"b\nc",d\r\ne', 3, [[4, ["a", "b\nc", "d"]], [5, ["e"]]]),
        ("a\r\nb\n\rc\r\rd", 2, [[1, ["a"]], [3, ["b"]], [4, ["c"]], [5, [""]], [6, ["d"]]]),
        ('"""a"""', 1, [[8, ['"a"']]]),
        ("", 1, []),
    ],
)
def test_a_record_comes_as_soon_as_it_is_read(
    shared_lua: Lua, text: str, size: int, records: list[list[object]]
) -> None:
    """A record comes after the chunk that has its line end; quotes and line ends may lie in two chunks."""
    (found,) = shared_lua(READS + "local text, size = ... return records(text, size)", text, size)
    assert found == records


def test_a_source_without_an_end_is_read_on_demand(shared_lua: Lua) -> None:
    (found,) = shared_lua("""
        local reads, found = 0, {}
        local source = {read = function() reads = reads + 1 return 'line' .. reads .. '\\n' end}
        for i, fields in require('csv').iterate(source) do
            found[i] = {reads, fields[1]}
            if i == 3 then break end
        end
        return found""")
    assert found == [[1, "line1"], [2, "line2"], [3, "line3"]]


@pytest.mark.parametrize(
    ("value", "first", "later"),
    [
        ("nil", "Usage: load(string or object with method read(num)returns string)", "len' (string expected, got nil)"),
        ("5", "csv_feed' (cannot convert 'number' to 'const char *')", "csv_feed' (cannot convert 'number'"),
        ("{}", "len' (string expected, got table)", "len' (string expected, got table)"),
    ],
)
def test_chunks_are_texts(shared_lua: Lua, value: str, first: str, later: str) -> None:
    texts = shared_lua(f"""
        local texts = {{}}
        for count = 0, 1 do
            local reads = 0
            local source = {{read = function()
                reads = reads + 1
                if reads > count then return {value} end
                return 'a,b'
            end}}
            local _, problem = pcall(require('csv').load, source)
            texts[count + 1] = problem
        end
        return unpack(texts)""")
    assert first in texts[0]
    assert later in texts[1]


def test_a_dump_to_a_writer_returns_nothing(shared_lua: Lua) -> None:
    assert shared_lua("""
        local lines = {}
        local writer = {write = function(_, line) lines[#lines + 1] = line end}
        return select('#', require('csv').dump({{'a', 'b,'}, {1}}, {}, writer)), lines""") == [0, ['a,"b,"\n', "1\n"]]
