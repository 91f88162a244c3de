"""What Tarantool adds to Lua's own libraries. Expected values were printed by a running Tarantool."""

from __future__ import annotations

import re

import pytest

from box.errors import BoxError

from .conftest import Lua


def test_split_cuts_at_separators_or_at_runs_of_whitespace(lua: Lua) -> None:
    assert lua("return ('a,b,,c'):split(','), (' a  b c '):split(), ('a,b,c'):split(',', 1), (''):split(',')") == [
        ["a", "b", "", "c"],
        ["a", "b", "c"],
        ["a", "b,c"],
        [""],
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("string.split()", "bad argument #1 to 'string.split' (string expected, got nil)"),
        ("string.ljust('a')", "bad argument #2 to 'string.ljust' (positive integer expected, got nil)"),
        ("string.ljust('a', 3, 'xx')", "bad argument #3 to 'string.ljust' (char expected, got string)"),
        (
            "string.fromhex('616')",
            "bad argument #1 to 'string.fromhex' (even amount of chars expected, got odd amount)",
        ),
        ("string.fromhex('6g')", "bad argument #1 to 'string.fromhex' (hex string expected, got non hex chars)"),
        ("string.startswith('abc')", "bad argument #2 to 'string.startswith' (string expected, got nil)"),
    ],
)
def test_string_functions_check_their_arguments(shared_lua: Lua, call: str, message: str) -> None:
    with pytest.raises(BoxError) as caught:
        shared_lua(f"local value = {call} return value")
    assert caught.value.message == f"test.lua:1: {message}"


def test_padding_stripping_and_affixes(lua: Lua) -> None:
    assert lua(
        """return ('a'):ljust(3, '*'), ('a'):rjust(3), ('ab'):center(7, '-'), ('  a \\n'):strip(), ('xaxx'):strip('x'),
            (' a '):lstrip(), (' a '):rstrip(), ('abc'):startswith('b', 2, 3), ('abc'):startswith('bc', -2),
            ('abc'):endswith('b', 1, -2), ('ab\\255'):hex(), ('6162'):fromhex()"""
    ) == ["a**", "  a", "--ab---", "a", "a", "a ", " a", True, True, True, "6162ff", "ab"]


def test_tables_are_copied_with_their_metatables(lua: Lua) -> None:
    assert lua(
        """local meta = {}
        local source = setmetatable({1, {2}}, meta)
        source.itself = source
        local shallow, deep = table.copy(source), table.deepcopy(source)
        return getmetatable(shallow) == meta, shallow[2] == source[2], deep[2] == source[2], deep.itself == deep,
            table.copy(setmetatable({}, {__copy = function() return 'own' end})), table.copy(5)"""
    ) == [True, True, False, True, "own", 5]


def test_equality_of_tables_is_by_contents(lua: Lua) -> None:
    assert lua(
        """return table.equals({1, {2}}, {1, {2}}), table.equals({1}, {1, 2}), table.equals({a = box.NULL}, {}),
            table.equals(1, '1')"""
    ) == [True, False, False, False]


def test_environment(lua: Lua) -> None:
    assert lua(
        """os.setenv('LUNABOX_TEST', 'x')
        local set = os.getenv('LUNABOX_TEST')
        local listed = os.environ().LUNABOX_TEST
        os.setenv('LUNABOX_TEST')
        return set, listed, os.getenv('LUNABOX_TEST') == nil"""
    ) == ["x", "x", True]


def test_utf8_counts_code_points(lua: Lua) -> None:
    assert lua(
        """return utf8.len('привет'), utf8.sub('привет', 2, -2), utf8.upper('привет'), utf8.char(1087, 65),
            {utf8.next('привет')}, {utf8.len('a\\255')}, utf8.isalpha('п'), utf8.isdigit('5'), utf8.isupper('a'),
            utf8.cmp('a', 'B'), utf8.casecmp('a', 'A')"""
    ) == [6, "риве", "ПРИВЕТ", "пA", [3, 1087], [None, 2], True, True, False, -1, 0]


def test_utf8_next_makes_a_loop(lua: Lua) -> None:
    assert lua("local r = {} for p, c in utf8.next, 'пa' do table.insert(r, {p, c}) end return r") == [
        [[3, 1087], [4, 97]]
    ]


def test_box_null_is_a_value_that_fun_goes_over(lua: Lua) -> None:
    """fun iterates over box.NULL; only nil ends a list."""
    assert lua(
        """
        local fun, list = require('fun'), require('json').decode('[1, null, 3]')
        return fun.iter(list):totable(), fun.length(list), fun.index(nil, list), fun.zip(list, 'abc'):length(),
            fun.iter(list):map(type):totable()
        """
    ) == [[1, None, 3], 3, 2, 3, ["number", "cdata", "number"]]


@pytest.mark.parametrize("name", ["head", "car"])
def test_the_first_element_takes_one_step(lua: Lua, name: str) -> None:
    """`head` takes one step of the generator, which may be one that cannot go back."""
    assert lua(
        """
        local calls, name = 0, ...
        local iterator = require('fun').wrap(function() calls = calls + 1 return true, calls, 'x' end)
        return {iterator[name](iterator)}, calls
        """,
        name,
    ) == [[1, "x"], 1]


def test_iterators_are_not_used_up(lua: Lua) -> None:
    """Iterators of fun are not used up: each pass begins anew, and a `for` loop accepts them."""
    assert lua(
        """
        local fun, seen = require('fun'), {}
        local both = fun.zip({1, 2}, 'ab'):enumerate()
        for _, number, value, text in fun.zip({1, 2}, 'ab'):enumerate() do
            table.insert(seen, {number, value, text})
        end
        return both:length(), both:take(1):length(), both:length(), seen
        """
    ) == [2, 1, 2, [[1, 1, "a"], [2, 2, "b"]]]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("fun.iter(nil)", "invalid iterator"),
        ("fun.iter(5)", 'object 5 of type "number" is not iterable'),
        ("fun.head({})", "head: iterator is empty"),
        ("fun.max_by(math.max, {})", "max: iterator is empty"),
        ("fun.take(nil, {1})", "invalid first argument to take_while"),
        ("fun.range(1, 2, 0)", "step must not be zero"),
        ("fun.rands(5, 5)", "empty interval"),
    ],
)
def test_fun_refuses(shared_lua: Lua, call: str, problem: str) -> None:
    (text,) = shared_lua(f"local fun = require('fun') return tostring(select(2, pcall(function() return {call} end)))")
    assert re.sub(r"^builtin/fun\.lua:\d+: ", "", text) == problem


@pytest.mark.parametrize(
    ("call", "held"),
    [
        ("fun.range(1, 5, 2)", "[5,2] -1"),
        ("fun.duplicate(7)", "7 0"),
        ("fun.duplicate(7, 8)", "[7,8] 0"),
        ("fun.rands(5, 9)", "[5,8] 0"),
        ("fun.iter({4, 5})", "[4,5] 0"),
        ("fun.iter({})", "[] null"),
        ("fun.iter({4}):enumerate()", "[f,[4]] [1,0]"),
        ("fun.iter({4}):take(2)", "[2,f,[4]] [0,0]"),
        ("fun.iter({4}):intersperse('-')", '["-",f,[4]] [0,0]'),
        ("fun.iter({4}):cycle()", "[f,[4],0] 0"),
        ("fun.iter({4}):map(print)", "[f,[4],f] 0"),
        ("fun.iter({4}):filter(print)", "[f,f,[4]] 0"),
        ("fun.iter({4}):indexes(4)", "[4,f,[4]] [0,0]"),
        ("fun.zip({4}, fun.drop(1, {5, 6}))", "[f,[5,6],f,[4]] [1,0]"),
    ],
)
def test_iterators_hold_what_tarantools_hold(shared_lua: Lua, call: str, held: str) -> None:
    """Iterators of fun have the `param` and `state` that Tarantool's have."""
    (text,) = shared_lua(
        f"""
        local fun = require('fun')
        local function shown(value)
            if type(value) == 'function' then return 'f' end
            if type(value) ~= 'table' then return require('json').encode(value) end
            local parts = {{}}
            for i, part in ipairs(value) do parts[i] = shown(part) end
            return '[' .. table.concat(parts, ',') .. ']'
        end
        local object = {call}
        return shown(object.param) .. ' ' .. shown(object.state)"""
    )
    assert text == held


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("fun.iter({1}):map(1):totable()", "attempt to call local 'fun' (a number value)"),
        ("fun.iter({1}):filter('x'):totable()", "attempt to call local 'fun' (a string value)"),
        ("fun.any(1, {1})", "attempt to call local 'fun' (a number value)"),
        ("fun.foldl(1, 2, {1})", "attempt to call local 'fun' (a number value)"),
        ("fun.min({1, 'a'})", "bad argument #2 to 'cmp' (number expected, got string)"),
        ("fun.sum({'a'})", "attempt to perform arithmetic on local 'r' (a string value)"),
        ("fun.iter(box.tuple.new{1})", 'object [1] of type "cdata" is not iterable'),
        ("fun.op.neg(1)", "attempt to call field 'neg' (a nil value)"),
    ],
)
def test_errors_of_fun_name_what_tarantools_name(shared_lua: Lua, call: str, problem: str) -> None:
    (text,) = shared_lua(f"local fun = require('fun') return tostring(select(2, pcall(function() return {call} end)))")
    assert text.endswith(problem)


def test_what_is_not_there_is_nil(lua: Lua) -> None:
    """`nth` and `index` return one nil where there is nothing."""
    found = lua(
        """
        local fun = require('fun')
        return select('#', fun.nth(4, {1})), select('#', fun.index(5, {1})), select('#', fun.range(0)),
            fun.length({nil, 2}), fun.iter({1, 2, 3}):drop(2):length(), fun.op.intdiv(-7, 2), fun.op.intdiv(7, -2),
            fun.range(5):nth(2.5), fun.nth(1.5, {1, 2})"""
    )
    assert list(found) == [1, 1, 3, 2, 3, -3, -4, 2, None]


def test_lists_of_triggers_for_modules(lua: Lua) -> None:
    """`internal.trigger` offers lists of triggers, which vshard needs."""
    assert lua(
        """local list, seen = require('internal.trigger').new('loud'), {}
        local function note(name) return function(...) table.insert(seen, {name, ...}) end end
        local first, second = note('first'), setmetatable({}, {__call = function(_, ...) table.insert(seen, {...}) end})
        local added = {n = select('#', list(first)), list(second)}
        list:run(1, 'x')
        local other = note('other')
        local replaced = list(other, first) == first
        list:run()
        local function text(...) local _, problem = pcall(list, ...) return (tostring(problem):gsub('^.-: ', '')) end
        return seen, added.n, replaced, list(nil, other) == other, #list(), list()[1] == second,
            text(nil, first), text(first, other), text(1), text(first, 1)"""
    ) == [
        [["first", 1, "x"], [1, "x"], ["other"], []],
        0,
        True,
        True,
        1,
        True,
        "loud: trigger is not found",
        "loud: trigger is not found",
        "Usage: loud(callable)",
        "Usage: trigger(new_callable, old_callable)",
    ]


def test_q_of_string_format_takes_any_value(lua: Lua) -> None:
    assert lua(
        """
        local id = require('uuid').fromstr('c8f0fa1f-da29-438c-a040-393f1126ad39')
        local object = setmetatable({}, {__tostring = function() return 'a "b"' end})
        return ('%q %s %%q %q'):format(id, 1, nil), ('%q'):format(object),
            ('%q|%q'):format(true, 1.5), ('%5d'):format(7)
        """
    ) == ['"c8f0fa1f-da29-438c-a040-393f1126ad39" 1 %q "nil"', '"a \\"b\\""', '"true"|"1.5"', "    7"]


def test_string_format_keeps_zeros_of_strings(lua: Lua) -> None:
    """`%s` shows a string with zero bytes whole, in its width and precision; LuaJIT 2.0 would end at the first zero."""
    assert lua(
        r"""
        local text = 'a\0b'
        return ('%s=%s'):format(text, 1), ('%5s|%-5s|%.2s|%.0s|'):format(text, text, text, text),
            ('%%%s%q'):format(text, 'x')
        """
    ) == ["a\0b=1", "  a\0b|a\0b  |a\0||", '%a\0b"x"']


def test_string_format_takes_flags_more_than_once(lua: Lua) -> None:
    assert lua("return ('%+++++++d|%-----------------3d|'):format(1, 2)") == ["+1|2  |"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("string.format('%100d', 1)", "invalid option '%100' to 'format'"),
        ("string.format('a%', 1)", "invalid option '%' to 'format'"),
        ("string.format('%5.3y', 1)", "invalid option '%5.3y' to 'format'"),
        ("string.format('%d %y', 'x', 1)", "bad argument #2 to 'format' .number expected, got string."),
        ("string.format('%s %d', 'a\\0b')", "bad argument #3 to 'format' .(no value|value expected)."),
        ("string.format('%q')", "bad argument #2 to 'format'"),
        ("string.format()", "bad argument #1 to 'format' .string expected, got no value."),
        ("string.format('%d %q', 'x', nil)", "bad argument #2 to 'format' .number expected, got string."),
    ],
)
def test_string_format_refuses(shared_lua: Lua, call: str, message: str) -> None:
    with pytest.raises(BoxError, match="^test.lua:1: " + message):
        shared_lua(f"local text = {call} return text")


def test_modules_are_in_package_loaded_before_they_are_required(lua: Lua) -> None:
    """Built-in modules are in package.loaded before they are required, because programs look there."""
    assert lua(
        """
        local before, fio = type(package.loaded.key_def), package.loaded.fio
        package.loaded.fio = nil
        return before, package.loaded.fio == fio, require('fio') == fio, package.loaded['no.such.module'],
            type(package.loaded['net.box'].connect)
        """
    ) == ["table", True, True, None, "function"]


ORDER = """
    local function order(t)
        local names = {}
        for name in pairs(t) do
            names[#names + 1] = name
        end
        return table.concat(names, ' ')
    end
    -- A table with room for its fields, which `names` assigns one after another.
    local function sized(names)
        local source = {}
        for i, name in ipairs(names) do
            source[i] = ('[names[%d]] = %d'):format(i, i)
        end
        return loadstring('local names = ... return {' .. table.concat(source, ', ') .. '}')(names)
    end
    local function grown(names)
        local result = {}
        for i, name in ipairs(names) do
            result[name] = i
        end
        return result
    end
    local function packed(names)
        local parts = {require('pickle').pack('b', 0x80 + #names)}
        for i, name in ipairs(names) do
            parts[i + 1] = require('msgpack').encode(name) .. require('msgpack').encode(i)
        end
        return table.concat(parts)
    end
    local different, wrong = 0, {}
    for case = 1, 60 do
        local names = {}
        for i = 1, case % 12 + 1 do
            names[i] = require('digest').md5_hex(case .. ' ' .. i)
        end
"""


def test_maps_have_the_room_that_tarantools_decoders_give_them(lua: Lua) -> None:
    """Decoded maps have the table sizes, and so the `pairs()` order, that Tarantool's have."""
    assert lua(
        ORDER
        + """
            local expected, growing, bytes = order(sized(names)), order(grown(names)), packed(names)
            different = different + (expected ~= growing and 1 or 0)
            local raw = require('msgpack').decode('\\x91' .. bytes)
            for kind, pair in pairs({
                decode = {order(require('msgpack').decode(bytes)), expected}, nested = {order(raw[1]), expected},
            }) do
                if pair[1] ~= pair[2] then
                    wrong[#wrong + 1] = kind .. case
                end
            end
        end
        return different > 0, wrong"""
    ) == [True, []]


def test_maps_of_yaml_have_room_for_five_fields(lua: Lua) -> None:
    assert lua(
        ORDER
        + """
            local lines, expected = {}, require('table.new')(0, 5)
            for i, name in ipairs(names) do
                lines[i], expected[name] = ('%s: %d'):format(name, i), i
            end
            local found = order(require('yaml').decode(table.concat(lines, '\\n')))
            different = different + (found ~= order(grown(names)) and 1 or 0)
            if found ~= order(expected) then
                wrong[#wrong + 1] = case
            end
        end
        return different > 0, wrong"""
    ) == [True, []]


@pytest.mark.parametrize("fields", ["18446744073709551615ULL", "1e308", "2^27"])
def test_a_table_too_large_is_refused(lua: Lua, fields: str) -> None:
    (text,) = lua(f"return tostring(select(2, pcall(function() return require('table.new')(1, {fields}) end)))")
    assert any(reason in text for reason in ("table overflow", "not enough memory", "number expected, got cdata"))


def test_descriptions_of_fibers_with_and_without_backtrace(lua: Lua) -> None:
    """`backtrace` counts before `bt`; only false and nil leave the backtrace out."""
    assert lua("""
        local fiber, shown = require('fiber'), {}
        for i, options in ipairs({{}, {bt = false}, {backtrace = false, bt = true}, {bt = 0}}) do
            local info = fiber.info(options)
            shown[i] = {type(info[fiber.id()].backtrace), getmetatable(info).__serialize}
        end
        return shown""") == [[["table", "mapping"], ["nil", "mapping"], ["nil", "mapping"], ["table", "mapping"]]]
