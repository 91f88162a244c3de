"""Decimals, key definitions, buffers, log files. Expected values were printed by a running Tarantool."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

from box.data.codec import pack
from box.errors import BoxError

from .conftest import Lua


def test_decimals_compute_with_38_digits(lua: Lua) -> None:
    assert lua(
        """local d = require('decimal')
        local a = d.new('1.50')
        local t = tostring
        return t(a + 1), t('3' * a), t(d.new(1) / 3), t(-a), t(a ^ 2), t(a % d.new(1)), a == 1.5, a < 2, a <= '1.5',
            t(d.new('1e20')), t(d.new(1 / 3)), t(d.new(18446744073709551615ULL)), t(d.ln(10)), t(d.sqrt(2)),
            t(d.round(d.new('1.555'), 2)), t(d.rescale(a, 4)), t(d.trim(d.new('1.500'))), d.scale(a), d.precision(a),
            d.is_decimal(a), d.is_decimal(1), a == nil"""
    ) == [
        "2.50", "4.50", "0.33333333333333333333333333333333333333", "-1.50", "2.2500", "0.50", True, True, True,
        "100000000000000000000", "0.333333333333333", "18446744073709551615", "2.3025850929940456840179914546843642076",
        "1.4142135623730950488016887242096980786", "1.56", "1.5000", "1.5", 2, 3, True, False, False,
    ]  # fmt: skip


def test_decimals_and_numbers_of_c(lua: Lua) -> None:
    assert (
        lua(
            """local d, ffi, result = require('decimal'), require('ffi'), {}
        for _, kind in ipairs{'char', 'int8_t', 'uint8_t', 'int16_t', 'uint32_t', 'int64_t', 'float'} do
            local five = ffi.new(kind, 5)
            local ok = d.new(5) == five and five == d.new('5.0') and d.new(4) < five and d.new(five) == 5
            result[#result + 1] = ok and tostring(five + d.new(1))
        end
        return unpack(result)"""
        )
        == ["6"] * 7
    )


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("d.new('abc')", "incorrect value to convert to decimal as 1 argument"),
        ("d.new('1e38')", "incorrect value to convert to decimal as 1 argument"),
        ("d.new({})", "expected decimal, number or string as 1 argument"),
        ("d.new(1) + {}", "expected decimal, number or string as 2 argument"),
        ("d.new(1) / 0", "decimal operation failed"),
        ("d.ln(0)", "decimal operation failed"),
    ],
)
def test_decimals_refuse(shared_lua: Lua, expression: str, message: str) -> None:
    with pytest.raises(BoxError, match=message):
        shared_lua(f"local d = require('decimal') local value = {expression} return value")


def test_decimals_travel_in_messagepack(lua: Lua) -> None:
    assert lua("return require('decimal').new('-12.50'), tostring(...), ...", Decimal("1.5")) == [
        Decimal("-12.50"),
        "1.5",
        Decimal("1.5"),
    ]


def test_key_definitions_compare_tuples(lua: Lua) -> None:
    assert lua(
        """local key_def = require('key_def')
        local k = key_def.new({{fieldno = 3, type = 'unsigned'}, {field = 1, type = 'string'}})
        local t = box.tuple.new{'a', 5, 7}
        return k:extract_key(t), k:compare(t, {'b', 5, 7}), k:compare(t, t), k:compare_with_key(t, {7}),
            k:compare_with_key(t, {1}), k:totable(), k:merge(key_def.new({{fieldno = 2, type = 'any'}})):totable()[3],
            tostring(k), type(k)"""
    ) == [
        [7, "a"], -1, 0, 0, 6,
        [{"type": "unsigned", "fieldno": 3, "is_nullable": False},
         {"type": "string", "fieldno": 1, "is_nullable": False}],
        {"type": "any", "fieldno": 2, "is_nullable": False}, "<struct key_def &>", "cdata",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("key_def.new({})", "Key definition can only be constructed by using at least 1 key_part"),
        ("key_def.new({{type = 'unsigned'}})", "fieldno or field must not be nil"),
        ("key_def.new({{fieldno = 1, type = 'xx'}})", "Unknown field type: xx"),
        ("key_def.new({{fieldno = 1, type = 'string', collation = 'xx'}})", 'Unknown collation: "xx"'),
        ("k:extract_key({'a'})", r"Tuple field \[3\] required by space format is missing"),
        ("k:extract_key({1, 2, 'x'})", "Supplied key type of part 0 does not match index part type: expected unsigned"),
    ],
)
def test_key_definitions_refuse(shared_lua: Lua, source: str, message: str) -> None:
    with pytest.raises(BoxError, match=message):
        shared_lua(
            f"local key_def = require('key_def') local k = key_def.new({{{{fieldno = 3, type = 'unsigned'}}}}) {source}"
        )


def test_a_reference_to_a_key_definition_is_one(lua: Lua) -> None:
    """A reference to a key definition is accepted as one: programs make it for `merger.new`."""
    assert lua(
        """local ffi, key_def, merger = require('ffi'), require('key_def'), require('merger')
        local function reference()
            local k = key_def.new({{fieldno = 1, type = 'unsigned'}})
            local r = ffi.cast('struct key_def &', k)
            return merger.new(r, {merger.new_source_fromtable({{1}, {3}}), merger.new_source_fromtable({{2}})}),
                {r:compare({1}, {2}), key_def.compare(r, {2}, {1}), r:totable()[1].type}
        end
        local m, compared = reference()
        collectgarbage()
        return m:select(), compared"""
    ) == [[[1], [2], [3]], [-1, 1, "unsigned"]]


@pytest.mark.parametrize("arguments", ["nil, {}", "{}, {}", "key_def"])
def test_merger_refuses_what_is_no_key_definition(shared_lua: Lua, arguments: str) -> None:
    with pytest.raises(BoxError, match=r"Bad params, use: merger\.new"):
        shared_lua(
            "local key_def, merger = require('key_def').new{{fieldno = 1, type = 'any'}}, require('merger') "
            f"merger.new({arguments})"
        )


MERGED = """
    local fun, merger = require('fun'), require('merger')
    local key_def = require('key_def').new{{fieldno = 1, type = 'unsigned'}}
    local function merged()
        return merger.new(key_def, {merger.new_source_fromtable{{1}, {3}}, merger.new_source_fromtable{{2}, {4}}})
    end
    local function first(tuple)
        return tuple[1]
    end
"""


def test_a_merger_is_an_iterator_of_fun(lua: Lua) -> None:
    assert lua(
        MERGED
        + """return merged():pairs():map(first):totable(), merged():pairs():length(), merged():ipairs():head(),
            merged():pairs():filter(function(t) return t[1] > 1 end):take_n(2):map(first):totable(),
            merged():pairs():foldl(function(sum, t) return sum + t[1] end, 0)"""
    ) == [[1, 2, 3, 4], 4, [1], [2, 3], 10]


def test_the_generator_of_a_source_keeps_its_last_state(lua: Lua) -> None:
    """A source's generator keeps its last state, and may be called again at the end."""
    assert lua(
        MERGED
        + """local function generate(step, state)
            if state.at == 3 then
                return nil
            end
            return {at = state.at + 1}, {{state.at * step}}
        end
        local tuples = {}
        local sources = {}
        for i, step in ipairs({10, 15}) do
            sources[i] = merger.new_table_source(generate, step, {at = 1})
        end
        for _, tuple in merger.new(key_def, sources):pairs() do
            table.insert(tuples, tuple[1])
        end
        return tuples, sources[1]:select()"""
    ) == [[10, 15, 20, 30], []]


def test_buffers_grow_and_are_read(lua: Lua) -> None:
    assert lua(
        """local ffi, b = require('ffi'), require('buffer').ibuf()
        ffi.copy(b:alloc(5), 'hello')
        b:reserve(100000)
        local text, first = ffi.string(b.rpos, b:size()), ffi.string(b:read(2), 2)
        local _, problem = pcall(b.checksize, b, 100)
        problem = problem:gsub('^builtin/buffer.lua:%d+: ', '')
        local facts = {text, first, b:size(), b:pos(), b:capacity(), problem}
        b:recycle()
        return facts, b:size(), b:capacity(), tostring(b)"""
    ) == [
        ["hello", "he", 3, 2, 131024, "Attempt to read out of range bytes: needed=100 size=3"], 0, 0, "<ibuf>",
    ]  # fmt: skip


def test_log_files_are_read_row_by_row(lua: Lua, tmp_path: Path) -> None:
    (rows,) = lua(
        """local s = box.schema.space.create('q')
        s:create_index('pk')
        s:insert{1, 'a'}
        s:update(1, {{'=', 2, 'b'}})
        box.begin() s:insert{5} s:insert{6} box.commit()
        local rows = {}
        for lsn, row in require('xlog').pairs(require('fio').glob(... .. '/*.xlog')[1]) do
            row.HEADER.timestamp = nil
            table.insert(rows, {lsn, row})
        end
        return rows""",
        str(tmp_path),
        configure={},
        directory=True,
    )
    first, second, third, fourth = rows[-4:]
    assert first[1] == {
        "HEADER": {"type": "INSERT", "lsn": first[0], "replica_id": 1},
        "BODY": {"space_id": 512, "tuple": [1, "a"]},
    }
    assert second[1]["BODY"] == {"space_id": 512, "index_base": 1, "key": [1], "tuple": [["=", 2, "b"]]}
    assert third[1]["HEADER"]["tsn"] == third[0]
    assert fourth[1]["HEADER"]["tsn"] == third[0]
    assert fourth[1]["HEADER"]["commit"] is True


def test_a_log_file_is_closed_when_a_loop_over_it_is_left(lua: Lua, tmp_path: Path) -> None:
    """A log file whose loop is left early is closed by the garbage collector."""
    assert lua(
        """
        local fio = require('fio')
        local path = fio.glob(... .. '/*.snap')[1]
        local function times_open()
            local count = 0
            for _, name in ipairs(fio.listdir('/proc/self/fd')) do
                count = count + (fio.readlink('/proc/self/fd/' .. name) == path and 1 or 0)
            end
            return count
        end
        local function leave_early()
            for _ in require('xlog').pairs(path) do
                return times_open()
            end
        end
        local before, during = times_open(), leave_early()
        collectgarbage()
        collectgarbage()
        return during - before, times_open() - before""",
        str(tmp_path),
        configure={},
        directory=True,
    ) == [1, 0]


@pytest.mark.parametrize(
    ("path", "message"), [("nosuch", "failed to open 'nosuch' file"), (__file__, "xlog type string|end of file")]
)
def test_what_is_no_log_file_is_refused(shared_lua: Lua, path: str, message: str) -> None:
    with pytest.raises(BoxError, match=message):
        shared_lua("require('xlog').pairs(...)", path)


def test_a_file_of_an_unknown_kind_is_refused(lua: Lua, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(
        "SNOP\n0.13\nVersion: 2.8.1\nInstance: b7a3b3a2-0000-4000-8000-000000000000\nVClock: {}\n\n"
    )
    with pytest.raises(BoxError, match="xlog reader does not support 'SNOP' file type"):
        lua("require('xlog').pairs(...)", str(tmp_path / "f"))


def test_sources_are_merged_in_the_order_of_a_key(lua: Lua) -> None:
    assert lua(
        """local merger = require('merger')
        local k = require('key_def').new({{fieldno = 1, type = 'unsigned'}})
        local function source(...) return merger.new_source_fromtable({...}) end
        return merger.new(k, {source({1}, {3}), source({2}, {9})}):select(),
            merger.new(k, {source({3}, {1}), source({2})}, {reverse = true}):select({limit = 2})"""
    ) == [[[1], [2], [3], [9]], [[3], [2]]]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ("{{}}", "Tuple field 1 required by space format is missing"),
        (
            "{{1}}, {{'a'}}",
            "Tuple field 1 type does not match one required by operation: expected unsigned, got string",
        ),
        (
            "{{1}}, {{box.NULL}}",
            "Tuple field 1 type does not match one required by operation: expected unsigned, got nil",
        ),
    ],
)
def test_a_merger_checks_the_tuples_of_its_sources(shared_lua: Lua, lists: str, message: str) -> None:
    """A merger checks tuples as a format does, also those of a single source."""
    with pytest.raises(BoxError, match=re.escape(message)):
        shared_lua(
            f"""local merger, sources = require('merger'), {{}}
            for i, list in ipairs{{{lists}}} do sources[i] = merger.new_source_fromtable(list) end
            return merger.new(require('key_def').new{{{{fieldno = 1, type = 'unsigned'}}}}, sources):select()"""
        )


def test_sources_without_order_are_merged_by_their_first_tuples(lua: Lua) -> None:
    """Of tuples with equal keys, the one of the earlier source comes first."""
    assert lua(
        """local merger = require('merger')
        local k = require('key_def').new({{fieldno = 1, type = 'unsigned'}})
        local function source(...) return merger.new_source_fromtable({...}) end
        local m = merger.new(k, {source({5}, {1}, {7}), source({3}, {2}), source({4}, {4, 'b'}, {0})})
        collectgarbage() collectgarbage()
        return m:select(), merger.new(k, {source({1, 'a'}), source({1, 'b'}), source({1, 'c'})}):select()"""
    ) == [[[3], [2], [4], [4, "b"], [0], [5], [1], [7]], [[1, "a"], [1, "b"], [1, "c"]]]


NUMBERS = {
    "'+5'": 5, "'- 5'": -5, "'-+5'": -5, "'--5'": None, "'+-5'": None, "'0x 5'": 5, "'0x-5'": 2**64 - 5,
    "'-5ull'": 2**64 - 5, "'5LLU'": 5, "'5l'": None, "'5ll', 36": 7257, "'5ll', 21": None, "'0x1', 36": 1189,
    "'-0xff', 16": -255, "'-9223372036854775808'": -(2**63), "'-9223372036854775809'": None,
    "'18446744073709551615'": 2**64 - 1, "'18446744073709551616'": None, "'00000000000000000000000012'": 12,
    "' \v5\f'": 5, "'5\0'": None, "''": None, "'-'": None, "'0x'": None, "'ll'": None,
}  # fmt: skip


def test_texts_become_64_bit_numbers(lua: Lua) -> None:
    calls = ", ".join(f"tostring(tonumber64({arguments}))" for arguments in NUMBERS)
    found = [text.rstrip("UL") for text in lua(f"return {calls}")]
    assert found == ["nil" if number is None else str(number) for number in NUMBERS.values()]


def test_decimals_and_uuids_travel_byte_for_byte(lua: Lua) -> None:
    """Decimals and UUIDs have the bytes of Python's codec: zeros, both signs, 38 digits, every size of header."""
    texts = ["0", "-0", "0.00", "7", "-7", "12", "123456", "0.05", "-0.050", "99.5", "9" * 38, "0." + "1" * 38]
    uuid = "c8f0fa1f-da29-438c-a040-393f1126ad39"
    shown, packed, uuid_shown, uuid_packed = lua(
        """
        local texts, id = ...
        local msgpack, decimal, uuid = require('msgpack'), require('decimal'), require('uuid')
        local shown, packed = {}, {}
        for i, text in ipairs(texts) do
            packed[i] = msgpack.encode(decimal.new(text))
            shown[i] = tostring((msgpack.decode(packed[i])))
            packed[i] = packed[i]:hex()
        end
        local bytes = msgpack.encode(uuid.fromstr(id))
        return shown, packed, tostring((msgpack.decode(bytes))), bytes:hex()""",
        texts,
        uuid,
    )
    assert shown == texts
    assert packed == [pack(Decimal(text)).hex() for text in texts]
    assert (uuid_shown, uuid_packed) == (uuid, pack(UUID(uuid)).hex())


def test_what_a_serializer_of_the_user_encodes_meanwhile_is_not_mixed_up(lua: Lua) -> None:
    """`__serialize` may encode, let other fibers encode, and fail, without mixing their outputs."""
    assert lua(
        """
        local msgpack, json, fiber = require('msgpack'), require('json'), require('fiber')
        local function object(number)
            return setmetatable({}, {__serialize = function()
                local bytes = #msgpack.encode({('x'):rep(number * 1000)})
                fiber.sleep(0.001)
                if number == 3 then error('three') end
                return {number, bytes > 0}
            end})
        end
        local results, done = {}, fiber.channel(4)
        for number = 1, 4 do
            fiber.create(function()
                for _ = 1, 5 do
                    local ok, bytes = pcall(msgpack.encode, {number, object(number), ('y'):rep(number), object(number)})
                    results[number] = ok and json.encode((msgpack.decode(bytes))) or tostring(bytes):match('three')
                end
                done:put(true)
            end)
        end
        for _ = 1, 4 do done:get() end
        return results"""
    ) == [[*(f'[{n},[{n},true],"{"y" * n}",[{n},true]]' for n in (1, 2)), "three", '[4,[4,true],"yyyy",[4,true]]']]


MARKED = {
    "tuple field": "box.tuple.new{1, {}}[2]",
    "path of a tuple": "box.tuple.new{1, {a = {}}}['[2].a']",
    "tuple:totable": "box.tuple.new{}:totable()",
    "tuple:totable of a part": "box.tuple.new{1, {}}:totable(2, 2)[1]",
    "json": "require('json').decode('[]')",
    "nested json": "require('json').decode('{\"a\": [ ]}').a",
    "yaml": "require('yaml').decode('[]')",
    "yaml of an anchor": "require('yaml').decode('[&a [], *a]')[2]",
    "msgpack": "require('msgpack').decode('\\144')",
    "mark given by hand": "setmetatable({}, require('json').array_mt)",
}


@pytest.mark.parametrize("source", MARKED.values(), ids=MARKED.keys())
def test_a_name_takes_the_mark_of_an_empty_array_off(lua: Lua, source: str) -> None:
    """Adding a name to a table that is marked as an empty array makes it a map, and the other way round."""
    assert lua(
        f"""
        local array, msgpack = {source}, require('msgpack')
        local before = msgpack.encode(array):hex()
        array.test = 48
        return before, msgpack.encode(array):hex(), getmetatable(array) == nil, require('json').encode(array)"""
    ) == ["90", "81a47465737430", True, '{"test":48}']


def test_a_number_takes_the_mark_of_an_empty_map_off(lua: Lua) -> None:
    assert lua(
        """
        local json, results = require('json'), {}
        for i, text in ipairs{'{}', '[1]'} do
            local value = json.decode(text)
            value[#value + 1] = 'x'
            results[i] = json.encode(value)
        end
        return results, json.array_mt == require('msgpack').array_mt, json.map_mt == require('yaml').map_mt"""
    ) == [['["x"]', '[1,"x"]'], True, True]


def test_a_json_path_finds_false(lua: Lua) -> None:
    assert lua(
        """
        local tuple = box.tuple.new{1, false, {a = false, b = true}}
        return tuple['[2]'], tuple['[3].a'], tuple['[3].b'], tuple['[3].c']"""
    ) == [False, False, True, None]


def test_a_handler_of_the_user_gives_what_is_encoded_in_the_place_of_its_cdata(lua: Lua) -> None:
    """A registered encoder of cdata may encode itself, and its error is that of the call."""
    assert lua(
        """
        local ffi, msgpack = require('ffi'), require('msgpack')
        ffi.cdef('struct handled { int x; };')
        require('msgpackffi').on_encode(ffi.typeof('struct handled'), function(value)
            if value.x < 0 then error('negative', 0) end
            return {x = value.x, size = #msgpack.encode({value.x, 'text'})}
        end)
        local decoded = msgpack.decode(msgpack.encode({1, ffi.new('struct handled', {5}), 2}))
        local ok, problem = pcall(msgpack.encode, {ffi.new('struct handled', {-1})})
        return decoded, ok, tostring(problem)"""
    ) == [[1, {"x": 5, "size": 7}, 2], False, "negative"]


def test_zeros_of_decimals_keep_their_sign_until_they_are_calculated_with(lua: Lua) -> None:
    assert lua(
        """
        local decimal, texts = require('decimal'), {}
        for i, number in ipairs{decimal.new(-0.0), decimal.new('-0'), -decimal.new('0'), -decimal.new('-0'),
            decimal.new('-0') + 0, decimal.abs('-0'), decimal.new('-0.00')} do
            texts[i] = tostring(number)
        end
        return texts"""
    ) == [["-0", "-0", "0", "0", "0", "0", "-0.00"]]


def test_separators_of_csv_are_one_byte(lua: Lua) -> None:
    """csv uses the first byte of a separator, of a number that of its text; output uses the whole text."""
    assert lua(
        """
        local csv = require('csv')
        return csv.load('a;b\\n', {delimiter = ';b'}), csv.load('a5b\\n', {delimiter = 59}),
            csv.dump({1, 2}, {delimiter = 'ab'})"""
    ) == [[["a", "b"]], [["a", "b"]], "1ab2\n"]


def test_quotes_of_csv_that_stand_alone(lua: Lua) -> None:
    """Two quotes outside of a quoted part are one quote; a quote at the end of the text quotes nothing."""
    assert lua(
        """
        local csv = require('csv')
        return csv.load('"",a""'), csv.load('a"'), csv.load('a\\n\\rb'), csv.load(',,', {quote_char = ','}),
            csv.dump({'a\\0b', 'c"'})"""
    ) == [[['"', 'a"']], [["a"]], [["a"], ["b"]], [["", "", ""]], 'a,c""\n']


def test_options_of_csv(lua: Lua) -> None:
    """The defaults are written into the table of the user; what is no table is refused after the text."""
    assert lua(
        """
        local csv, options = require('csv'), {}
        csv.load('a', options)
        local function problem(...) return (tostring(select(2, pcall(...))):gsub('^.-: ', '')) end
        return options.chunk_size, options.delimiter, problem(csv.load, '', 5), problem(csv.load, {}, 5),
            problem(csv.dump, {1}, {quote_char = ''})"""
    ) == [
        4096,
        ",",
        "attempt to index local 'opts' (a number value)",
        "Usage: load(string or object with method read(num)returns string)",
        "cannot convert 'nil' to 'char'",
    ]


def test_options_of_serializers_are_shown_as_they_were_given(lua: Lua) -> None:
    assert lua(
        """
        local json = require('json').new()
        json.cfg{decode_max_depth = true, encode_load_metatables = 20}
        local ok, problem = pcall(function() local x = json.cfg(5) end)
        return json.cfg.decode_max_depth, json.cfg.encode_load_metatables, json.encode(1, 'options'),
            tostring(problem):match("bad argument.*")"""
    ) == [True, 20, "1", "bad argument #2 to 'cfg' (table expected, got number)"]


def test_two_slashes_in_front_stay(lua: Lua) -> None:
    """fio keeps two leading slashes, as POSIX allows and Linux does."""
    assert lua(
        """
        local fio, found = require('fio'), {}
        for i, path in ipairs{'//', '//a', 'a//b', 'a//', '///', '///a', '//a//b//', '', 'a'} do
            found[i] = fio.dirname(path)
        end
        return found, fio.basename('a5', 5), fio.basename('a.b', true)"""
    ) == [["//", "//", "a", ".", "/", "/", "//a", ".", "."], "a", "a.b"]


def test_sources_of_a_merger_are_cdata(lua: Lua) -> None:
    text, kind = lua(
        "local m = require('merger') local s = m.new_source_fromtable({{1}}) return tostring(s), type(s)",
    )
    assert text.startswith("cdata<struct merge_source &>: 0x")
    assert kind == "cdata"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("m.new_source_frombuffer(1)", "Usage: merger.new_source_frombuffer(<cdata<struct ibuf>>)"),
        ("m.new_buffer_source(function() return 1, 2 end):select()", "Expected <state>, <buffer>"),
        ("m.new_table_source(function() return 1 end):select()", "Expected <state>, <table>, got 1 return values"),
        ("m.new_table_source(function() return 1, 2 end):select()", "Expected <state>, <table>"),
        ("m.new_tuple_source(function() return 1, 2, 3 end):select()", "<state>, <tuple>, got 3 return values"),
        ("m.new(k, {k})", "Unknown source type at index 1"),
        ("m.new_source_fromtable{}.select()", "Bad params, use: merge_source:select("),
        ("m.new_source_fromtable{}.pairs()", "Usage: merge_source:ipairs()"),
        ("m.new_source_fromtable{}:select{limit = 'x'}", 'Bad param "limit", use: merge_source:select('),
        ("m.new(k, {}, {reverse = 1})", 'Bad param "reverse", use: merger.new('),
    ],
)
def test_wrong_arguments_of_a_merger(lua: Lua, call: str, message: str) -> None:
    with pytest.raises(BoxError) as failure:
        lua(f"local k, m = require('key_def').new{{{{fieldno = 1, type = 'unsigned'}}}}, require('merger') {call}")
    assert message in failure.value.message


@pytest.mark.parametrize("data", [r"\5", r"\146\145\1", r"\221\255\255\255\255", r"\145\219\255\255\255\255"])
def test_a_merger_reads_no_further_than_its_buffer(lua: Lua, data: str) -> None:
    with pytest.raises(BoxError, match=r"Invalid merge source|Unexpected msgpack buffer end"):
        lua(
            f"""local data, buffer = '{data}', require('buffer').ibuf()
            require('ffi').copy(buffer:alloc(#data), data, #data)
            require('merger').new_source_frombuffer(buffer):select()"""
        )


def test_a_merger_of_an_empty_buffer(lua: Lua) -> None:
    """A merger accepts a new buffer, which has no memory at all."""
    assert lua("return #require('merger').new_source_frombuffer(require('buffer').ibuf()):select()") == [0]


def test_yaml_quotes_texts_like_numbers_of_any_size(lua: Lua) -> None:
    assert lua("local e = require('yaml').encode return e('1e+3000149'), e('.5e1234567'), e('1.2.3e5')") == [
        "--- '1e+3000149'\n...\n", "--- '.5e1234567'\n...\n", "--- 1.2.3e5\n...\n",
    ]  # fmt: skip


def test_pointers_keep_their_type(lua: Lua) -> None:
    """msgpack.ibuf_decode() returns a pointer of the type that it gets."""
    chunk = """local ffi, msgpack = require('ffi'), require('msgpack')
    local data = ffi.new('char[2]', 5)
    local function type_of(kind)
        return tostring(ffi.typeof((msgpack.ibuf_decode(ffi.cast(kind, data)))))
    end
    return type_of('char *'), type_of('const char *')"""
    assert lua(chunk) == ["ctype<char *>", "ctype<const char *>"]


def test_arguments_of_guava_are_converted_as_in_c(lua: Lua) -> None:
    """Booleans are 0 and 1, and fractions are cut off."""
    assert lua("local guava = require('digest').guava return guava(true, 11), guava(0, 1.5), guava(1, 11)") == [6, 0, 6]


@pytest.mark.parametrize(
    "value",
    ["require('buffer').ibuf()", "require('uuid').new()", "require('decimal').new(1)", "box.error.new{}", "1LL"],
)
def test_types_of_c_have_no_text(shared_lua: Lua, value: str) -> None:
    """What `ffi.typeof` returns has the methods of its values, but none of their members."""
    source = f"""
        local found = {{}}
        for _, name in ipairs{{'yaml', 'json', 'msgpack'}} do
            found[#found + 1] = select(2, pcall(require(name).encode, require('ffi').typeof({value})))
        end
        return unpack(found)"""
    assert shared_lua(source) == ["unsupported Lua type 'cdata'"] * 3
