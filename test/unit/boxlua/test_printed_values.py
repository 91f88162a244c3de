"""What a console shows, byte for byte, as a Tarantool 2.8.1 has printed it: order of members, names, texts."""

from __future__ import annotations

import json

import pytest

from .box_support import Box, Run

SPACE = "local s = box.schema.space.create('s', {%s}) "
YAML = "local yaml = require('yaml') local value = %s return (yaml.encode(value):gsub('\\n%%.%%.%%.\\n$', ''))"


async def shown(box: Box, expression: str) -> str:
    text: str = await box(YAML % expression)
    return text.removeprefix("--- ").removeprefix("---\n")


async def has_tarantools_order(box: Box) -> bool:
    """Return whether this is LuaJIT 2.0, whose tables have their keys in the order of Tarantool's."""
    return bool(await box("return jit.version_num < 20100"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("{{'a', 'unsigned'}}", '[{"name":"a","type":"unsigned"}]'),
        ("{{name = 'a', type = 'string'}}", '[{"name":"a","type":"string"}]'),
        ("{'a'}", '[{"name":"a","type":"any"}]'),
        (
            "{{name = 'b', is_nullable = true, collation = 'unicode'}}",
            '[{"is_nullable":true,"collation":1,"name":"b","type":"any"}]',
        ),
    ],
)
def test_order_of_members_of_a_stored_format(run: Run, given: str, expected: str) -> None:
    """Members of a field are stored in the order in which Lua's table has them, without those that are not given."""

    async def body(box: Box) -> None:
        chunk = (
            SPACE % f"format = {given}"
            + "return require('json').encode(setmetatable(s:format(), {__serialize = 'seq'}))"
        )
        found = await box(chunk)
        assert found == expected if await has_tarantools_order(box) else json.loads(found) == json.loads(expected)

    run(body)


def test_bitset_has_no_unique(run: Run) -> None:
    async def body(box: Box) -> None:
        chunk = (
            SPACE % ""
            + "s:create_index('pk') "
            + "return s:create_index('b', {type = 'bitset', parts = {2, 'unsigned'}, unique = false}).unique == nil"
        )
        assert await box(chunk) is True

    run(body)


def test_names_of_later_versions_are_not_listed(run: Run) -> None:
    """A loop over `box` or `box.error` finds the names of 2.8.1 alone; the others are found by name."""

    async def body(box: Box) -> None:
        listed = "local names = {} for name in pairs(%s) do names[name] = true end return names%s == nil"
        for table, name in (("box", ".watch"), ("box", ".txn_id"), ("box", ".iproto"), ("box.error", ".ACTIVE_TIMER")):
            assert await box(listed % (table, name)) is True
            assert await box(f"return {table}{name} ~= nil") is True
        assert (
            await box(
                "local code = 0 for _, c in pairs(box.error) do code = math.max(code, tonumber(c) or 0) end return code"
            )
            == 224
        )
        chunk = (
            "box.schema.func.create('f', {body = 'function() end'}) return rawget(box.func.f, 'takes_raw_args') == nil"
        )
        assert await box(chunk) is True

    run(body)


def test_order_of_attributes_of_an_unpacked_error(run: Run) -> None:
    async def body(box: Box) -> None:
        if not await has_tarantools_order(box):
            return
        await box("chain = box.error.new('A', 'one') chain:set_prev(box.error.new('B', 'two'))")
        lines = [line for line in (await shown(box, "chain:unpack()")).splitlines() if line[0] not in " -"]
        assert [line.split(":")[0] for line in lines] == [
            "prev", "code", "base_type", "type", "custom_type", "message", "trace",
        ]  # fmt: skip
        cancelled = (
            "select(2, pcall(function() require('fiber').self():cancel() require('fiber').testcancel() end)):unpack()"
        )
        lines = [line for line in (await shown(box, cancelled)).splitlines() if line[0] not in " -"]
        assert [line.split(":")[0] for line in lines] == ["base_type", "type", "message", "trace"]

    run(body)


def test_order_of_options_of_serializers(run: Run) -> None:
    async def body(box: Box) -> None:
        if not await has_tarantools_order(box):
            return
        names = [line.split(":")[0] for line in (await shown(box, "require('json').cfg")).splitlines()]
        assert names == [
            "encode_load_metatables", "encode_invalid_numbers", "encode_use_tostring", "decode_max_depth",
            "encode_number_precision", "encode_sparse_convert", "encode_max_depth", "decode_invalid_numbers",
            "encode_sparse_ratio", "encode_invalid_as_nil", "encode_sparse_safe", "encode_deep_as_nil",
            "decode_save_metatables",
        ]  # fmt: skip

    run(body)


def test_a_rollback_shows_its_statements_backwards(run: Run) -> None:
    async def body(box: Box) -> None:
        found = await box(
            SPACE % ""
            + """s:create_index('pk')
            local found = {}
            local function note(iterate)
                for number, old, new in iterate() do table.insert(found, {number, old or 'none', new}) end
            end
            box.begin() box.on_rollback(note) s:replace{1, 'a'} s:replace{1, 'b'} box.rollback()
            box.begin() box.on_commit(note) s:replace{1, 'a'} s:replace{1, 'b'} box.commit()
            return found"""
        )
        assert found == [
            [1, [1, "a"], [1, "b"]], [2, "none", [1, "a"]], [1, "none", [1, "a"]], [2, [1, "a"], [1, "b"]],
        ]  # fmt: skip

    run(body)


def test_texts(run: Run) -> None:
    async def body(box: Box) -> None:
        for statement, text in (
            ("box.cfg{log = 1}", "Incorrect value for option 'log': can't be set dynamically"),
            (
                "box.cfg{log_level = 'INFO'}",
                "Incorrect value for option 'log_level': expected crit,warn,info,debug,syserror,verbose,fatal,error",
            ),
            (
                "box.space._session_settings:update('sql_defer_foreign_keys', {{'=', 3, true}})",
                "Tuple field count 3 does not match space field count 2",
            ),
            (
                "box.schema.sequence.create('q', {max = 9223372036854775808ULL})",
                "Tuple field 6 type does not match one required by operation: expected integer, got unsigned",
            ),
        ):
            assert await box.fails(statement) == text
        assert await box("box.begin(1) local is_open = box.is_in_txn() box.rollback() return is_open") is True

    run(body)


def test_index_by_a_function_names_it(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box(
            """local body = 'function(t) return {t[1]} end'
            box.schema.func.create('keys', {body = body, is_deterministic = true, is_sandboxed = true})
            local space = box.schema.space.create('s')
            space:create_index('pk')
            local index = space:create_index('f', {func = 'keys', parts = {{1, 'unsigned'}}})
            return index.func.name, index.func.fid == box.func.keys.id, space.index.pk.func"""
        ) == ["keys", True, None]

    run(body)


def test_functions_raise_error_objects(run: Run) -> None:
    """box.func.name:call() turns whatever the function raises into an error."""

    async def body(box: Box) -> None:
        assert await box(
            """box.schema.func.create('text', {body = 'function() error("no", 0) end'})
            box.schema.func.create('map', {body = 'function() error({code = 5}) end'})
            local found = {}
            for _, name in ipairs({'text', 'map'}) do
                local _, problem = pcall(box.func[name].call, box.func[name])
                table.insert(found, {type(problem) ~= "string", problem.type, problem.message:match('^%a+')})
            end
            return found"""
        ) == [[True, "LuajitError", "no"], [True, "LuajitError", "table"]]

    run(body)


def test_what_users_without_grants_are_told(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box(
            """local space, sequence = box.schema.space.create('s'), box.schema.sequence.create('q')
            local index = space:create_index('pk')
            box.schema.user.create('nobody')
            local texts = {}
            for _, name in ipairs({'stat', 'compact', 'bsize'}) do
                local _, problem = pcall(box.session.su, 'nobody', index[name], index)
                table.insert(texts, problem.message)
            end
            local _, problem = pcall(box.session.su, 'nobody', sequence.current, sequence)
            table.insert(texts, problem.message)
            return texts"""
        ) == ["Read access to space 's' is denied for user 'nobody'"] * 3 + [
            "Write access to sequence 'q' is denied for user 'nobody'"
        ]

    run(body)


def test_spaces_are_blessed_again(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box(
            """local space = box.schema.space.create('s')
            space:create_index('pk')
            setmetatable(space, nil)
            box.schema.space.bless(space)
            return space:insert{1}, space.index.pk:get(1)"""
        ) == [[1], [1]]

    run(body)


def test_order_of_vector_clocks_and_memory(run: Run) -> None:
    """Tables of `box.info` have room for their members when they are made, which decides the order."""

    async def body(box: Box) -> None:
        if not await has_tarantools_order(box):
            return
        box.instance.node.state.vclock[1], box.instance.node.state.vclock[2] = 11, 2
        assert await shown(box, "box.info.vclock") == "{2: 2, 1: 11}"
        names = "local names = {} for name in pairs(box.info.memory()) do names[#names + 1] = name end return names"
        assert await box(names) == ["cache", "data", "index", "lua", "net", "tx"]
        names = "local names = {} for name in pairs(box.error.injection) do names[#names + 1] = name end return names"
        assert await box(names) == ["get", "info", "set"]

    run(body)
