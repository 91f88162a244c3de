"""box.schema: DDL from Lua, and the objects that show it."""

from __future__ import annotations

from pathlib import Path

from .box_support import Box, Run


def test_options_of_spaces(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box("s, how = box.schema.space.create('a') return s.id, how, s.enabled") == [512, "created", False]
        again = "local t, how = box.schema.space.create('a', {if_not_exists = true}) return t == s, how"
        assert await box(again) == [True, "not created"]
        assert await box.fails("box.schema.space.create('a')") == "Space 'a' already exists"
        assert await box.fails("box.schema.create_space('b', {foo = 1})") == (
            "Illegal parameters, unexpected option 'foo'"
        )
        assert await box.fails("box.schema.space.create(1)") == "Illegal parameters, name should be a string"
        assert await box.fails("box.schema.space.create('b', {user = 'nobody'})") == "User 'nobody' is not found"
        made = "local t = box.schema.space.create('b', {id = 600, temporary = true, is_local = false, field_count = 2})"
        assert await box(made + " return t.id, t.temporary, t.is_local, t.field_count, t.is_sync") == [
            600,
            True,
            False,
            2,
            False,
        ]
        assert await box("local t = box.schema.space.create('c', {is_sync = true}) return t.id, t.is_sync") == [
            514,
            True,
        ]

    run(body)


def test_formats(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("""
            s = box.schema.space.create('a', {format = {
                'plain', {'typed', 'unsigned'}, {'mixed', type = 'string'}, {name = 'named', 'integer'},
                {name = 'full', type = 'string', is_nullable = true, collation = 'unicode'},
            }})
        """)
        assert await box("return s:format()") == [
            {"name": "plain", "type": "any"},
            {"name": "typed", "type": "unsigned"},
            {"name": "mixed", "type": "string"},
            {"name": "named", "type": "integer"},
            {"name": "full", "type": "string", "is_nullable": True, "collation": 1},
        ]
        assert await box.fails("s:format{{5}}") == "Illegal parameters, format[1]: name (string) is expected"
        assert await box.fails("s:format{{'a', type = 5}}") == "Illegal parameters, format[1]: type must be a string"
        assert "collation was not found by name 'x'" in await box.fails("s:format{{'a', 'string', collation = 'x'}}")

    run(body)


def test_a_format_that_no_index_fits_is_refused_with_the_names_before(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('a') s:create_index('pk')")
        text = "%s has type 'string' in space format, but type 'unsigned' in index definition"
        assert await box.fails("s:format{{'new', 'string'}}") == text % "Field 1"
        await box("s:format{{'old', 'unsigned'}}")
        assert await box.fails("s:format{{'new', 'string'}, {'b', 'string'}}") == text % "Field 1 (old)"

    run(body)


def test_notations_of_index_parts(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('a', {format = {{'id', 'unsigned'}, {'map', 'map'}, {'n', 'string'}}})")
        parts = "local i = s:create_index('i', {parts = %s}) local p = i.parts i:drop() return p"
        one = [{"type": "unsigned", "fieldno": 1, "is_nullable": False}]
        for notation in ("{1, 'unsigned'}", "{{1, 'unsigned'}}", "{{field = 1, type = 'unsigned'}}", "{'id'}", "{1}"):
            assert await box(parts % notation) == one
        assert await box(parts % "{1, 'unsigned', 3, 'string'}") == [
            *one,
            {"type": "string", "fieldno": 3, "is_nullable": False},
        ]
        await box("s:create_index('pk')")
        assert await box("return s.index.pk.parts") == one
        assert await box(parts % "{{field = 'map.key', type = 'string'}}") == [
            {"type": "string", "fieldno": 2, "is_nullable": False, "path": ".key"}
        ]
        for notation, message in {
            "{}": "options.parts must have at least one part",
            "{1, 'unsigned', 2}": "options.parts: expected field_no (number), type (string) pairs",
            "{{'nope'}}": "options.parts[1]: field was not found by name 'nope'",
            "{{0, 'unsigned'}}": "options.parts[1]: field (number) must be one-based",
            "{{{}, 'unsigned'}}": "options.parts[1]: field (name or number) is expected",
            "{{1, 'unsigned', is_nullable = 1}}": "options.parts[1]: type (boolean) is expected",
            "{{1, 'unsigned', 'x'}}": "options.parts[1]: unexpected option x",
        }.items():
            assert await box.fails(parts % notation) == f"Illegal parameters, {message}"

    run(body)


def test_objects_follow_changes(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(
            "s = box.schema.space.create('a') i = s:create_index('pk') "
            "j = s:create_index('sk', {parts = {2, 'string'}})"
        )
        await box("s:rename('b') i:rename('primary') j:alter{unique = false, parts = {3, 'unsigned'}}")
        assert (
            await box("return box.space.a == nil, box.space.b == s, s.index.primary == i, s.index.pk == nil")
            == [True] * 4
        )
        assert await box("return j.unique, j.parts[1].fieldno, s.index.sk == j, s.enabled") == [False, 3, True, True]
        await box("j:drop()")
        assert await box("return s.index.sk == nil, s.index[1] == nil") == [True, True]
        await box("box.begin() s:rename('c') box.rollback()")
        assert await box("return s.name, box.space.c == nil, box.space.b == s") == ["b", True, True]
        await box("s:alter{is_sync = true, field_count = 3, name = 'd'}")
        assert await box("return s.is_sync, s.field_count, s.name") == [True, 3, "d"]
        await box("k = s:create_index('k', {parts = {1, 'unsigned'}}) s:insert{1, 'x', 3} k:get(1) i:get(1) k:drop()")
        assert await box.fails("k:get(1)") == "No index #1 is defined in space 'd'"
        await box("s:drop()")
        assert await box.fails("i:get(1)") == f"Space '{await box('return s.id')}' does not exist"
        assert await box("return box.space.d == nil, box.space[s.id] == nil") == [True, True]
        assert await box.fails("s:drop()") == "Space 'd' does not exist"

    run(body)


def test_methods_can_be_added(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('a') i = s:create_index('pk')")
        await box("""
            function box.schema.space_mt.shout(space) return space.name .. '!' end
            function box.schema.index_mt.shout(index) return index.name .. '!' end
            getmetatable(s).whisper = function(space) return space.name .. '?' end
        """)
        assert await box("return s:shout(), i:shout(), s:whisper(), box.space._space:shout(), s:len()") == [
            "a!",
            "pk!",
            "a?",
            "_space!",
            0,
        ]

    run(body)


def test_generated_and_named_sequences(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('a') i = s:create_index('pk', {sequence = true})")
        assert await box("return s:insert{nil, 'x'}, s:insert{box.NULL, 'y'}, box.sequence.a_seq:current()") == [
            [1, "x"],
            [2, "y"],
            2,
        ]
        assert await box("return i.sequence_id, i.sequence_fieldno") == [1, 1]
        await box("q = box.schema.sequence.create('q', {start = 10, step = 5})")
        await box("i:alter{sequence = 'q'}")
        assert await box("return s:insert{nil, 'z'}, box.sequence.a_seq == nil") == [[10, "z"], True]
        assert await box("return q:next(), q:set(100), q:next(), q:reset(), q:next()") == [15, None, 105, None, 10]
        assert await box.fails("q:drop()") == "Can't drop sequence 'q': the sequence is in use"
        await box("s:drop() q:drop()")
        assert await box("return box.sequence.q") is None
        assert await box.fails("box.schema.sequence.drop('q')") == "Sequence 'q' does not exist"
        await box("box.schema.sequence.drop('q', {if_exists = true})")

    run(body)


def test_users_roles_and_grants(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("box.schema.space.create('a') box.schema.user.create('joe', {password = 'x'})")
        assert await box("return box.schema.user.exists('joe'), box.schema.user.exists('public')") == [True, False]
        await box("box.schema.role.create('reader') box.schema.role.grant('reader', 'read', 'space', 'a')")
        await box("box.schema.user.grant('joe', 'reader') box.schema.user.grant('joe', 'execute', 'universe')")
        assert await box("return box.schema.user.info('joe')") == [
            ["execute", "role", "public"],
            ["execute", "role", "reader"],
            ["execute,session,usage", "universe", ""],
            ["alter", "user", "joe"],
        ]
        assert await box.fails("box.schema.user.grant('joe', 'reader')") == "User 'joe' already has role 'reader'"
        assert await box.fails("box.schema.role.grant('reader', 'session', 'universe')") == (
            "Incorrect grant arguments: system privilege can not be granted to role"
        )
        assert await box.fails("box.schema.user.grant('joe', 'read', 'thing', 'x')") == "Unknown object type 'thing'"
        assert await box.fails("box.schema.user.revoke('joe', 'write', 'space', 'a')") == (
            "User 'joe' does not have write access on space 'a'"
        )
        await box("box.schema.user.revoke('joe', 'reader') box.schema.role.drop('reader')")
        assert await box.fails("box.schema.user.drop('admin')") == (
            "Failed to drop user or role 'admin': the user or the role is a system"
        )
        await box("box.schema.user.drop('joe')")
        assert await box.fails("box.schema.user.info('joe')") == "User 'joe' is not found"

    run(body)


def test_acting_as_another_user(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('a') s:create_index('pk') s:insert{1} box.schema.user.create('joe')")
        who = "return box.session.su('joe', function() return box.session.user(), box.session.effective_user() end)"
        assert await box(who) == ["admin", "joe"]
        assert await box("return s:get(1)") == [1]
        denied = "Read access to space 'a' is denied for user 'joe'"
        assert await box.fails("box.session.su('joe', s.get, s, 1)") == denied
        assert await box.fails("box.session.su('joe', s.select, s)") == denied
        assert await box.fails("box.session.su('joe', error, 'inner')") == "inner"
        assert await box("return box.session.effective_user(), s:get(1)") == ["admin", [1]]
        await box("box.session.on_access_denied(function(...) seen = {...} end)")
        await box("pcall(box.session.su, 'joe', s.get, s, 1)")
        assert await box("return seen") == ["Read", "space", "a"]
        assert await box.fails("box.session.su('nobody')") == "User 'nobody' is not found"
        assert await box.fails("box.session.su(string.rep('n', 65))") == f"User '{'n' * 64}' is not found"
        assert await box.fails("box.session.su('a\\0b')") == "User 'a' is not found"
        assert await box.fails("box.session.su('joe', s.format, s, {})") == (
            "Write access to space '_space' is denied for user 'joe'"
        )

    run(body)


def test_a_session_that_gets_another_user_while_it_acts_as_one(run: Run) -> None:
    """The effective user is that of the session afterwards, which may be new."""

    async def body(box: Box) -> None:
        await box("box.schema.user.create('joe') box.schema.user.create('ann')")
        await box("box.session.su('joe', function() box.session.su('ann') end)")
        assert await box("return box.session.user(), box.session.effective_user()") == ["ann", "ann"]

    run(body)


def test_checks_of_grants(run: Run) -> None:
    """Type and privilege come before the options, and the options keep the grantor."""

    async def body(box: Box) -> None:
        await box("box.schema.user.create('joe') grant, revoke = box.schema.user.grant, box.schema.user.revoke")
        assert await box.fails("grant('joe', 'read', 'nope', 'a', 'text')") == "Unknown object type 'nope'"
        assert "index local 'options' (a string value)" in await box.fails(
            "grant('joe', 'read', 'universe', '', 'text')"
        )
        assert await box.fails("revoke('joe', 'read', 'universe', '', 'text')") == (
            "User 'joe' does not have read access on universe ''"
        )
        assert await box("o = {} grant('joe', 'read', 'universe', '', o) return o") == {"grantor": 1}
        part_type = "Supplied key type of part 0 does not match index part type: expected unsigned"
        assert await box.fails("grant('joe', box.NULL)") == part_type
        assert "the user or the role is a system" in await box.fails("box.schema.user.drop('admin', box.NULL)")
        assert await box.fails("box.schema.role.grant('public', 8)") == "Role '8' is not found"
        assert await box.fails("box.space._priv:insert{1, 1, 'universe', 1, 7}") == (
            "Incorrect grant arguments: can't revoke universe from the admin user"
        )

    run(body)


def test_numbers_of_fields_and_names_are_cut_as_in_c(run: Run) -> None:
    """A field number has 32 bits, a name ends with its first zero byte where it is checked or shown."""

    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('a', {format = {{'n\\0x', 'any'}}})")
        assert await box("return s:create_index('pk', {parts = {2^32 + 2, 'unsigned'}}).parts[1].fieldno") == 2
        assert await box.fails("s:create_index(string.rep('\\0', 70000))") == (
            "Can't create or modify index '' in space 'a': index name is too long"
        )

    run(body)


def test_a_format_that_a_tuple_does_not_fit_names_the_fields_as_before(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('a') s:create_index('pk') s:insert{1}")
        text = "Tuple field %s required by space format is missing"
        assert await box.fails("s:format{{'a', 'unsigned'}, {'new', 'any'}}") == text % "2"
        await box("s:format{{'a', 'unsigned'}, {'old', 'any', is_nullable = true}}")
        assert await box.fails("s:format{{'a', 'unsigned'}, {'new', 'any'}}") == text % "2 (old)"

    run(body)


def test_stored_functions(run: Run, tmp_path: Path) -> None:
    async def body(box: Box) -> None:
        await box("box.schema.func.create('inc', {body = 'function(x) return x + 1 end'})")
        await box(
            "box.schema.func.create('shut', "
            "{body = 'function() return box == nil, type(math) end', is_sandboxed = true})"
        )
        assert await box("return box.func.inc:call{1}, box.func.shut:call()") == [2, True, "table"]
        assert await box("return box.schema.func.call('inc', 5), box.schema.func.exists('inc')") == [6, True]
        assert await box.fails("box.schema.func.create('inc')") == "Function 'inc' already exists"
        message = await box.fails("box.schema.func.create('bad', {body = 'function('})")
        assert message.startswith("Failed to dynamically load function 'bad': ")
        assert "Use func:call(table)" in await box.fails("box.func.inc:call(5)")
        await box("box.func.inc:drop()")
        assert await box("return box.func.inc") is None

    run(body)


def test_once_survives_a_restart(run: Run, tmp_path: Path) -> None:
    call = "local n = 0 box.once('key', function() n = n + 1 end) return n"

    async def first(box: Box) -> None:
        assert [await box(call), await box(call)] == [1, 0]
        await box(
            "s = box.schema.space.create('a') s:create_index('pk') s:insert{1, 'x'} "
            "box.schema.func.create('f', {body = 'function() return 7 end'})"
        )

    async def second(box: Box) -> None:
        assert await box(call) == 0
        assert await box("return box.space.a:get(1), box.func.f:call()") == [[1, "x"], 7]

    run(first, tmp_path, wal_mode="write")
    run(second, tmp_path, wal_mode="write")


def test_what_belongs_to_a_space_goes_with_it(run: Run) -> None:
    """Dropping a space drops its sequences, grants and indexes, the primary one last."""

    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('a') s:create_index('pk', {sequence = true})")
        await box("s:create_index('second', {parts = {2, 'unsigned'}}) s:insert{box.NULL, 2}")
        await box("box.schema.user.create('joe') box.schema.user.grant('joe', 'read', 'space', 'a')")
        await box("""
            gone = {}
            for _, name in ipairs{'_space', '_index', '_priv', '_space_sequence', '_sequence'} do
                box.space[name]:on_replace(function(old, new)
                    if new == nil then table.insert(gone, {name, name == '_index' and old[2] or nil}) end
                end)
            end
            s:drop()
        """)
        assert await box("return unpack(gone)") == [
            ["_space_sequence"],
            ["_sequence"],
            ["_index", 1],
            ["_index", 0],
            ["_priv"],
            ["_space"],
        ]

    run(body)
