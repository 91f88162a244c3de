"""Wrong arguments of box functions and methods: texts, codes and order of checks as in Tarantool."""

from __future__ import annotations

import re

from .box_support import Box, Run

CREATE = "s = box.schema.space.create('s') pk = s:create_index('pk') "
TEXTS = {
    "box.ctl.wait_ro(nil)": "test:1: bad argument #1 to 'wait_ro' (number expected, got nil)",
    "box.backup.start(nil)": "test:1: bad argument #1 to 'start' (number expected, got nil)",
    "box.ctl.set_on_shutdown_timeout()": "function expected one argument",
    "box.schema.func.reload(nil)": "test:1: bad argument #1 to 'reload' (string expected, got nil)",
    "box.schema.func.reload()": "test:1: bad argument #1 to 'reload' (string expected, got no value)",
    "box.error.injection.get(nil)": "test:1: bad argument #1 to 'get' (string expected, got nil)",
    "box.execute()": "test:1: Usage: box.execute(sqlstring[, params]) or box.execute(stmt_id[, params])",
    "box.execute('SELECT 1', 1)": "test:1: Second argument must be a table",
    "box.prepare()": "test:1: Usage: box.prepare(sqlstring)",
    "box.unprepare('x')": "test:1: Usage: statement:unprepare() or box.unprepare(stmt_id)",
    "pk.stat()": "builtin/box/schema.lua: attempt to index local 'index' (a nil value)",
    "pk.stat({})": "test:1: usage index.info(space_id, index_id)",
    "pk.compact('x')": "test:1: usage index.compact(space_id, index_id)",
    "s:frommap({}, nil)": "test:1: Usage: space:frommap(map, opts)",
    "s:frommap({}, {}, 1)": "test:1: Usage: space:frommap(map, opts)",
    "box.tuple.new{1}.tomap()": "test:1: Usage: tuple:tomap(opts)",
    "box.tuple.new{1}.transform()": "test:1: Invalid argument #1 (box.tuple expected, got no value)",
    "box.tuple.new{1, 2}:next(true)": (
        "builtin/box/tuple.lua: attempt to perform arithmetic on local 'pos' (a boolean value)"
    ),
    "box.tuple.new{1}:find(nil, 1)": (
        "builtin/box/tuple.lua: attempt to perform arithmetic on local 'offset' (a nil value)"
    ),
    "box.tuple.new{1}:findall(nil, 1)": (
        "builtin/box/tuple.lua: attempt to perform arithmetic on upvalue 'offset' (a nil value)"
    ),
    "box.tuple.new{1, 2}:findall(0.5, 3)": "builtin/box/tuple.lua: error: invalid key to 'next'",
    "s:get(print)": "builtin/msgpackffi.lua: can not encode Lua type: 'function'",
    "s:get{print}": "builtin/msgpackffi.lua: can not encode Lua type: 'function'",
    "s:count{1, {print}}": "builtin/msgpackffi.lua: can not encode Lua type: 'function'",
    "s:select(box.error.new{})": "builtin/msgpackffi.lua: cannot convert 'string' to 'ctype'",
    "s:get{setmetatable({}, {__serialize = 5})}": "builtin/msgpackffi.lua: Invalid __serialize value",
    "s:insert(print)": "test:1: unsupported Lua type 'function'",
    "s:insert{1, {print}}": "test:1: unsupported Lua type 'function'",
    "s:update(1, {{'=', 2, print}})": "test:1: unsupported Lua type 'function'",
    "s:delete(print)": "test:1: unsupported Lua type 'function'",
    "local c = {} c.c = c s:replace{1, c}": "test:1: Too high nest level - 129",
    "local _, problem = pcall(s.insert, s, {1, {print}}) error(problem, 0)": "unsupported Lua type 'function'",
    "s:update(1, {a = 1})": "Tuple/Key must be MsgPack array",
    "s:upsert(5, {})": "test:1: Usage space:upsert(tuple_key, ops)",
    "s:select(1, {iterator = 0/0})": "Illegal parameters, Invalid iterator type",
    "s:select(1, {limit = 'x'})": (
        "builtin/box/schema.lua: bad argument #5 to 'box_select' (cannot convert 'string' to 'unsigned int')"
    ),
    "s:select(1, 5)": "builtin/box/schema.lua: attempt to index local 'opts' (a number value)",
    "pk:random({})": (
        "builtin/box/schema.lua: bad argument #3 to 'box_index_random' (cannot convert 'table' to 'unsigned int')"
    ),
    "s.create_index()": "builtin/box/schema.lua: Use space:create_index(...) instead of space.create_index(...)",
    "s:run_triggers('x')": (
        "builtin/box/schema.lua: bad argument #2 to 'space_run_triggers' (cannot convert 'string' to 'bool')"
    ),
    "s:frommap(5)": "test:1: Usage: space:frommap(map, opts)",
    "box.schema.space.create('a\\0b')": ("Invalid identifier 'a' (expected printable symbols only or it is too long)"),
    "box.schema.user.create({})": "Supplied key type of part 0 does not match index part type: expected unsigned",
    "box.schema.user.exists(box.NULL)": "Supplied key type of part 0 does not match index part type: expected unsigned",
    "box.schema.user.passwd(5)": "builtin/box/schema.lua: attempt to get length of local 'password' (a number value)",
    "box.schema.user.grant('guest')": "Invalid key part count in an exact match (expected 1, got 0)",
    "box.schema.func.drop()": "Invalid key part count in an exact match (expected 1, got 0)",
    "box.schema.func.create('f', {returns = ''})": "Failed to create function 'f': invalid returns value",
    "box.schema.sequence.create('q').next()": "builtin/box/schema.lua: attempt to index local 'self' (a nil value)",
    "box.error(1.5)": "test:1: box.error(): bad arguments",
    "box.error.new{}:set_prev(5)": "builtin/error.lua: Usage: error1:set_prev(error2)",
    "local e = box.error.new{} e:set_prev(e)": "builtin/error.lua: Cycles are not allowed",
    "box.error.injection.set('ERRINJ_WAL_DELAY_COUNTDOWN', 'x')": "expected int64_t as 2 argument",
    "box.session.peer('x')": "test:1: bad argument #1 to 'peer' (number expected, got string)",
    "box.session.push()": "test:1: Usage: box.session.push(data)",
    "box.ctl.wait_rw('x')": "test:1: bad argument #1 to 'wait_rw' (number expected, got string)",
    "box.session.su('al', 16)": "User 'al' is not found",
    "box.session.su('admin', 16)": "test:1: bad argument #2 to 'su' (function expected, got number)",
    "box.session.su('admin', nil)": "test:1: bad argument #2 to 'su' (function expected, got nil)",
    "box.session.su(-6)": "User '4294967290' is not found",
    "box.session.su(1e10)": "User '1410065408' is not found",
    "box.schema.func.drop('f', false)": "Function 'f' does not exist",
    "box.schema.space.create('t', false)": "Illegal parameters, options should be a table",
    "box.schema.user.grant('guest', 'read', 'universe', 'x', 'k')": (
        "builtin/box/schema.lua: attempt to index local 'options' (a string value)"
    ),
    "local q = box.schema.sequence.create('r') q:drop() q:set({})": "expected int64_t as 2 argument",
    "box.schema.sequence.create('t').set('')": "bad argument #1 to '?' (number expected, got nil)",
    "box.schema.space.create('i'):create_index('pk', {sequence = {field = true}})": (
        "builtin/box/schema.lua: assertion failed!"
    ),
    "box.execute(print, print)": "test:1: Usage: box.execute(sqlstring[, params]) or box.execute(stmt_id[, params])",
    "box.ctl.wait_rw(nil) return 1": "test:1: bad argument #1 to 'wait_rw' (number expected, got nil)",
    "box.is_in_txn(1) return 1": "test:1: wrong number of arguments for function call",
    "box.error('T\\0x', 'a\\0b')": "a",
    "box.error(box.error.NO_SUCH_USER, 'a\\0b')": "User 'a",
    "box.on_commit(1)": "test:1: Usage inside a transaction: box.on_commit([function | nil, [function | nil]])",
}


def test_texts(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE)
        texts = {call: re.sub(r"(builtin/\S+\.lua):\d+:", r"\1:", await box.fails(call)) for call in TEXTS}
        assert texts == TEXTS

    run(body)


def test_limits_wrap_around(run: Run) -> None:
    """Limit and offset are converted as in C: booleans are numbers, -1 is the greatest number."""

    async def body(box: Box) -> None:
        await box(CREATE + "s:insert{1} s:insert{2}")
        assert await box(
            "return #s:select({}, {limit = -1}), #s:select({}, {limit = true}), #s:select({}, {limit = 1ULL}),"
            " #s:select({}, {offset = -1}), #s:select({}, {limit = 1.5})"
        ) == [2, 1, 1, 0, 1]

    run(body)


def test_results_of_nothing(run: Run) -> None:
    """A look-up that finds nothing returns one nil."""

    async def body(box: Box) -> None:
        await box(CREATE)
        await box("t = box.tuple.new{1}")
        assert await box("return select('#', t:find(5)), select('#', t:next(1))") == [1, 1]
        assert await box("return box.tuple.new{1, 2}:update({a = 1})") == [1, 2]
        assert await box("return box.schema.sequence.create('q'):set(1.5), box.sequence.q:next()") == [None, 2]

    run(body)


def test_options_that_are_none(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("box.schema.func.create('f', false) box.schema.func.create('g', box.NULL)")
        await box("box.schema.space.create('s', box.NULL):create_index('pk', box.NULL)")
        assert await box("return box.func.f.name, box.func.g.name, box.space.s.index.pk.type") == ["f", "g", "TREE"]

    run(body)


def test_numbers_that_a_sequence_is_set_to(run: Run) -> None:
    """sequence:set converts as C does: towards zero, the least integer on overflow, the leading digits of a text."""

    async def body(box: Box) -> None:
        await box("q = box.schema.sequence.create('q', {min = -10, start = 1})")
        for value, expected in {"-1.5": -1, "1.5": 1, "'5.5'": 5, "'0x10'": 0, "18446744073709551615ULL": -1}.items():
            assert await box(f"q:set({value}) return q:current()") == expected
        assert await box("return type(q:current()), type(q:next())") == ["cdata", "number"]
        await box("q:set(-1e100)")

    run(body)


def test_a_user_that_is_neither_name_nor_number_is_the_guest(run: Run) -> None:
    async def body(box: Box) -> None:
        for value in ("box.NULL", "{}", "true"):
            assert await box(f"return box.session.su({value}, box.session.effective_user)") == "guest"

    run(body)


def test_codes_of_free_places(run: Run) -> None:
    """Reserved codes have no name in box.error."""

    async def body(box: Box) -> None:
        assert await box("return box.error.SQL_KEYWORD_IS_RESERVED == nil, box.error.new(67, 1).code") == [True, 67]

    run(body)


def test_counters_start_at_zero(run: Run) -> None:
    """box.stat counters start at zero: the bootstrap's writes do not count."""

    async def body(box: Box) -> None:
        assert await box("return box.stat().INSERT.total, box.info.sql()") == [
            0,
            {"cache": {"size": 0, "stmt_count": 0}},
        ]

    run(body)


def test_reads_are_counted_wherever_they_are_made(run: Run) -> None:
    """Reads are counted in transactions and outside: a select always, a get and a loop only without an error."""

    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('s') s:create_index('pk') s:insert{1} total = box.stat().SELECT.total")
        counted = "local before = total total = box.stat().SELECT.total return total - before"
        assert await box("s:get(1) s:get(1) s:get{1} s:select{1} s:select() " + counted) == 5
        assert await box("box.begin() s:get(1) s:select(1) for _ in s:pairs() do end box.commit() " + counted) == 3
        assert await box("pcall(s.get, s, 'a') pcall(s.pairs, s, 'a') " + counted) == 0
        assert await box("pcall(s.select, s, 'a') " + counted) == 1

    run(body)


def test_settings_before_the_configuration(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box("return box.session.settings.sql_default_engine") == "memtx"

    run(body, configure=False)


def test_beginnings_of_type_names(run: Run) -> None:
    """A beginning of 'num' or 'str' stands for unsigned or string; a part must have a type."""

    async def body(box: Box) -> None:
        await box(CREATE)
        assert await box("return s:create_index('a', {parts = {{2, 's'}}}).parts[1].type") == "string"
        assert await box("return s:create_index('b', {parts = {{3, ''}}}).parts[1].type") == "unsigned"
        row = "box.space._index:insert{s.id, 5, 'c', 'tree', {unique = true}, {{field = 1}}}"
        assert await box.fails(row) == "Wrong index options (field 1): index part: unknown field type"

    run(body)


def test_a_transaction_that_was_aborted_goes_on_until_its_commit(run: Run) -> None:
    """Statements and triggers of an aborted transaction go on until its commit, except where they wait."""

    async def body(box: Box) -> None:
        await box(CREATE + "s:before_replace(function(old, new) return new and new:update{{'!', -1, 'seen'}} end)")
        await box("fiber = require('fiber') box.begin() s:replace{1} fiber.sleep(0)")
        assert await box("return s:replace{2}") == [2, "seen"]
        await box("s:upsert({3}, {})")
        assert await box.fails("box.commit()") == "Transaction has been aborted by a fiber yield"

    run(body)
