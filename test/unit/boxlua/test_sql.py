"""`box.execute`, `box.prepare` and `box.unprepare` in Lua."""

from __future__ import annotations

from .box_support import Box, Run


def test_results_are_tables_and_rows_are_tuples(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box("return box.execute('create table t (id int primary key autoincrement, a text)')") == {
            "row_count": 1
        }
        inserted = await box("return box.execute('insert into t values (null, ?), (5, :b)', {'x', {[':b'] = 'y'}})")
        assert inserted == {"row_count": 2, "autoincrement_ids": [1]}
        await box("result = box.execute('select * from t')")
        columns = [{"name": "ID", "type": "integer"}, {"name": "A", "type": "string"}]
        assert await box("return result.metadata") == columns
        assert await box("return box.tuple.is(result.rows[1]), result.rows[2]") == [True, [5, "y"]]
        assert await box("return box.space.T:select(), box.space.T.index[0].name") == [
            [[1, "x"], [5, "y"]],
            "pk_unnamed_T_1",
        ]

    run(body)


def test_an_error_is_returned_and_the_last_one(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box(
            "local r, e = box.execute('selec') return r, e.code, tostring(e) == tostring(box.error.last())"
        ) == [
            None,
            184,
            True,
        ]
        for wrong in ("box.execute()", "box.execute({})", "box.execute('select 1', {}, 1)"):
            usage = "Usage: box.execute(sqlstring[, params]) or box.execute(stmt_id[, params])"
            assert await box.fails(wrong) == f"test:1: {usage}"
        for args in "'select 1', 5", "'select 1', nil", "box.prepare('select 1').stmt_id, nil":
            wrong = f"box.execute({args})"
            assert await box.fails(wrong) == "test:1: Second argument must be a table"
        text = "local _, e = box.execute('select ?', {function() end}) return tostring(e)"
        assert await box(text) == "Bind value type USERDATA for parameter 1 is not supported"
        text = "local _, e = box.execute('select :a', {{[':a'] = 1, [':b'] = 2}}) return tostring(e)"
        named = "SQL bind named parameter should be a table with one key - {name = value}"
        assert await box(text) == f"Illegal parameters, {named}"

    run(body)


def test_lua_and_sql_share_the_transaction(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("box.execute('create table t (id int primary key)')")
        await box("box.begin() box.space.T:insert{1} box.execute('insert into t values (2)') box.rollback()")
        assert await box("return box.space.T:count()") == 0
        await box(
            "box.execute('start transaction') box.space.T:insert{1} assert(box.is_in_txn()) box.execute('commit')"
        )
        assert await box("return box.space.T:count(), box.is_in_txn()") == [1, False]

    run(body)


def test_triggers_of_lua_see_changes_by_sql(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("box.execute('create table t (id int primary key, a int)')")
        await box("seen = {} box.space.T:on_replace(function(old, new) table.insert(seen, {old or 0, new or 0}) end)")
        await box("box.space.T:before_replace(function(old, new) return new and new:update{{'+', 2, 1}} end)")
        await box("box.execute('insert into t values (1, 1)') box.execute('delete from t')")
        assert await box("return seen") == [[0, [1, 2]], [[1, 2], 0]]

    run(body)


def test_a_prepared_statement_is_an_object(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("p = box.prepare('select ?, :a')")
        assert await box("return p.stmt_id, p.param_count, p.params") == [
            3865862610,
            2,
            [{"name": "?", "type": "ANY"}, {"name": ":a", "type": "ANY"}],
        ]
        assert await box("return p:execute({1, {[':a'] = 2}}).rows, box.execute(p.stmt_id, {3, 4}).rows") == [
            [[1, 2]],
            [[3, 4]],
        ]
        assert await box("return box.info.sql().cache.stmt_count") == 1
        await box("p:unprepare()")
        text = "local _, e = p:execute() return tostring(e)"
        assert await box(text) == "Prepared statement with id 3865862610 does not exist"
        assert await box("local _, e = box.prepare('selec') return e.code") == 184
        assert await box.fails("box.prepare()") == "test:1: Usage: box.prepare(sqlstring)"
        assert await box.fails("box.unprepare('x')") == "test:1: Usage: statement:unprepare() or box.unprepare(stmt_id)"

    run(body)


def test_dropping_a_space_drops_its_constraints(run: Run) -> None:
    """Dropping a space drops its constraints, also by space:drop() in Lua."""

    async def body(box: Box) -> None:
        await box("box.execute('create table p (id int primary key)')")
        await box("box.execute('create table t (id int primary key references p check (id > 0))')")
        await box("box.execute('create trigger g after insert on t for each row begin select 1; end')")
        assert "referenced index" in await box.fails("box.space.P:drop()")
        await box("box.space.T:drop() box.space.P:drop()")
        left = "return box.space._fk_constraint:count() + box.space._ck_constraint:count() + box.space._trigger:count()"
        assert await box(left) == 0

    run(body)


def test_net_box_runs_sql(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("box.cfg{listen = '127.0.0.1:0'} box.schema.user.grant('guest', 'super')")
        await box("c = require('net.box').connect(box.info.listen)")
        assert await box("return c:execute('create table t (id int primary key autoincrement, a text)')") == {
            "row_count": 1
        }
        inserted = {"row_count": 2, "autoincrement_ids": [1, 2]}
        assert await box("return c:execute('insert into t values (null, ?), (null, ?)', {'x', 'y'})") == inserted
        assert await box("p = c:prepare('select a from t where id = ?') return c:execute(p.stmt_id, {2}).rows") == [
            ["y"]
        ]
        assert await box("return p.metadata, p.param_count") == [[{"name": "A", "type": "string"}], 1]
        await box("c:unprepare(p.stmt_id)")
        assert "does not exist" in await box.fails("c:execute(p.stmt_id, {2})")
        assert await box.fails("c:execute('selec')") == "Syntax error at line 1 near 'selec'"
        assert await box.fails("c:execute('select 1', {}, {})") == "execute does not support options"
        await box("c:execute('start transaction')")
        assert "no transaction is active" in await box.fails("c:execute('commit')")
        await box("""c:execute('set session "sql_full_metadata" = true')""")
        assert await box("return c:execute('select * from t').metadata[1]") == {
            "name": "ID",
            "type": "integer",
            "span": "ID",
            "is_nullable": False,
            "is_autoincrement": True,
        }
        await box("c:close()")

    run(body)


def _function(name: str, body: str, options: str = "") -> str:
    return f"box.schema.func.create('{name}', {{body = [[{body}]], exports = {{'LUA', 'SQL'}}{options}}})"


def test_functions_of_lua_in_statements(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("box.execute('create table t (id int primary key, a text)')")
        await box(
            _function("PLUS", "function(a, b) return a + b end", ", param_list = {'any', 'any'}, returns = 'number'")
        )
        await box(_function("KIND", "function(a) return type(a) end", ", param_list = {'any'}, returns = 'string'"))
        await box(_function("ISONE", "function(a) return a == 1 end", ", param_list = {'any'}, returns = 'boolean'"))
        await box(_function("HOW_MANY", "function() return box.space.T:count() end", ", returns = 'integer'"))
        await box("box.execute([[insert into t values (1, 'x'), (2, null)]])")
        rows = "return box.execute([[select plus(id, 0.5), kind(a) from t where isone(id) or plus(id, 1) = 3]]).rows"
        assert await box(rows) == [[1.5, "string"], [2.5, "nil"]]
        assert await box("return box.execute('select how_many(), isone(2)').rows") == [[2, False]]
        assert await box("return box.execute('select plus(1, 2)').metadata[1].type") == "number"
        assert await box("return box.execute([[select kind(true), kind(x'00'), kind(1)]]).rows[1]") == [
            "boolean",
            "string",
            "number",
        ]
        await box("box.execute('insert into t values (plus(5, 6), null)')")
        assert await box("return box.space.T:get(11)") == [11, None]

    run(body)


def test_what_a_function_may_not_return(run: Run) -> None:
    async def body(box: Box) -> None:
        one = ", param_list = {'any'}, returns = '%s'"
        await box(_function("WORDS", "function(a) return a end", one % "string"))
        await box(_function("WHOLE", "function(a) return a end", one % "integer"))
        await box(_function("LISTS", "function(a) return {a} end", one % "any"))
        await box(_function("TWO", "function(a) return a, a end", one % "any"))
        await box(_function("NONE", "function(a) end", one % "any"))
        await box(_function("FAILS", "function(a) error('no') end", one % "any"))
        await box("box.schema.func.create('LUA_ONLY', {body = 'function(a) end', param_list = {'any'}})")
        text = "local _, e = box.execute(...) return tostring(e)"
        for call, message in (
            ("words(1)", "Function 'WORDS' returned value of invalid type: expected string got unsigned"),
            ("whole(-1.5)", "Function 'WHOLE' returned value of invalid type: expected integer got double"),
            ("lists(1)", "Failed to execute SQL statement: Unsupported type passed from Lua"),
            ("two(1)", "SQL expects exactly one argument returned from Lua, got 2"),
            ("none(1)", "SQL expects exactly one argument returned from Lua, got 0"),
            ("lua_only(1)", "function LUA_ONLY() is not available in SQL"),
            ("words(1, 2)", "Wrong number of arguments is passed to WORDS(): expected 1, got 2"),
        ):
            assert await box(text, f"select {call}") == message
        assert (await box(text, "select fails(1)")).endswith(": no")
        assert await box("return box.execute('select words(null), whole(5)').rows") == [[None, 5]]

    run(body)


_WAITS = "function(a) require('fiber').sleep(a) return a end"


def test_functions_that_wait(run: Run) -> None:
    """Other fibers run meanwhile, also other statements; a cancelled fiber ends its statement."""

    async def body(box: Box) -> None:
        await box(_function("WAITS", _WAITS, ", param_list = {'any'}, returns = 'number'"))
        outer = "function(a) return box.execute('select waits(?) * 2', {a}).rows[1][1] end"
        await box(_function("WAITS_TWICE", outer, ", param_list = {'any'}, returns = 'number'"))
        await box("box.execute('create table t (id integer primary key, s string)')")
        await box("box.execute('insert into t values (1, null), (2, null)')")
        both = """local fiber, found = require('fiber'), {}
            local function begin(text)
                local f = fiber.new(function() table.insert(found, box.execute(text).rows[1][1]) end)
                f:set_joinable(true)
                return f
            end
            local slow, quick = begin('select sum(waits(0.05)) from t'), begin('select waits_twice(0.01)')
            slow:join() quick:join()
            return found"""
        assert sorted(await box(both)) == [0.02, 0.1]
        assert await box("return box.execute('insert into t select waits(0.01) * 1000, null').row_count") == 1
        assert await box("return box.space.T:get(10)") == [10, None]
        cancelled = """local fiber, problem = require('fiber')
            local f = fiber.new(function() problem = tostring(select(2, box.execute('select waits(100)'))) end)
            f:set_joinable(true) fiber.sleep(0.01) f:cancel() f:join()
            return problem"""
        assert await box(cancelled) == "fiber is cancelled"
        aborted = """box.begin()
            box.execute("insert into t values (20, null)") box.execute('select waits(0.001)')
            return select(2, pcall(box.commit)).message"""
        assert await box(aborted) == "Transaction has been aborted by a fiber yield"
        assert await box("return box.execute('select count(*) from t').rows[1][1]") == 3

    run(body)


def test_a_function_is_dropped_and_made_again_while_it_waits(run: Run) -> None:
    async def body(box: Box) -> None:
        options = ", param_list = {'any'}, returns = 'number'"
        await box(_function("WAITS", _WAITS, options))
        await box(
            """local fiber = require('fiber')
            answers = fiber.channel(1)
            fiber.create(function() answers:put(box.execute('select waits(0.05)').rows[1][1]) end)
            box.func.WAITS:drop()"""
        )
        await box(_function("WAITS", "function() return 7 end", options))
        assert await box("return answers:get(), box.execute('select waits(1)').rows[1][1]") == [0.05, 7]

    run(body)


def test_a_fiber_that_ends_gives_up_its_prepared_statements(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(
            "local f = require('fiber').new(function() box.prepare('select 1') end) f:set_joinable(true) f:join()"
        )
        assert await box("return box.info.sql().cache.stmt_count") == 0
        await box("box.cfg{sql_cache_size = 0}")

    run(body)


def test_letters_change_their_case_as_the_language_of_a_collation_has_it(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("box.internal.collation.create('TURKISH', 'ICU', 'tr-TR', {strength = 'primary'})")
        cases = """return box.execute([[select lower('I' collate "TURKISH"), upper('i' collate "TURKISH"),
            lower('I'), upper('i' collate "unicode_tr_s1"), upper('ß' collate "TURKISH")]]).rows[1]"""
        assert await box(cases) == ["\u0131", "İ", "i", "İ", "SS"]

    run(body)


def test_a_function_runs_with_the_rights_that_it_has(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(_function("WHO", "function() return box.session.effective_user() end", ", returns = 'string'"))
        await box(
            _function(
                "OWNER", "function() return box.session.effective_user() end", ", returns = 'string', setuid = true"
            )
        )
        await box("box.schema.user.create('u') box.schema.user.grant('u', 'execute', 'function', 'OWNER')")
        run_as = "local r, e = box.session.su('u', box.execute, ...) return r and r.rows[1][1] or tostring(e)"
        assert await box(run_as, "select owner()") == "admin"
        refused = "Execute access to function 'WHO' is denied for user 'u'"
        assert await box(run_as, "select who()") == refused

    run(body)


def test_columns_of_moments_and_intervals_are_read_but_nothing_is_computed_with_them(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(
            """local dt = require('datetime')
            local format = {{'id', 'unsigned'}, {'at', 'datetime', is_nullable = true},
                {'every', 'interval', is_nullable = true}}
            local s = box.schema.space.create('g', {format = format})
            s:create_index('pk')
            s:insert{1, dt.new{year = 2024, tz = 'Europe/Berlin'}, dt.interval.new{month = 1, day = 3}}
            s:insert{2, dt.new{year = 1924}, dt.interval.new{sec = 1}}
            s:insert{3}
            function sql(text) local r, e = box.execute(text) return e and tostring(e) or r.rows end"""
        )
        text = "2024-01-01T00:00:00 Europe/Berlin"
        assert await box(
            """local r = box.execute('select * from "g"')
            return r.metadata[2].type, r.metadata[3].type, require('datetime').is_datetime(r.rows[1][2]), #r.rows"""
        ) == ["datetime", "interval", True, 3]
        for query, rows in (
            ('select typeof("at"), typeof("every") from "g" where "id" = 1', [["datetime", "interval"]]),
            ('select cast("at" as string), cast("every" as string) from "g" limit 1', [[text, "+1 months, 3 days"]]),
            ('select "id" from "g" order by "at"', [[3], [2], [1]]),
            ('select a."id", b."id" from "g" a, "g" b where a."at" > b."at"', [[1, 2]]),
            ('select count(distinct "at") from "g"', [[2]]),
            ('select cast(max("at") as string) from "g"', [[text]]),
            ('select "id" from "g" where "every" > "every"', "can not convert interval to comparable type"),
            ('select "id" from "g" where "at" > 1', "can not convert 1 to datetime"),
            ('select "at" + 1 from "g"', f"can not convert datetime({text}) to numeric"),
        ):
            expected = f"Type mismatch: {rows}" if isinstance(rows, str) else rows
            assert await box(f"return sql([[{query}]])") == expected, query
        refusal = "Inconsistent types: expected text or varbinary got interval"
        assert await box('return sql([[select "every" || \'a\' from "g"]])') == refusal
        assert "keyword 'datetime' is reserved" in str(await box("return sql('create table t (d datetime)')"))

    run(body)


def test_checks_made_by_sql_are_seen(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("box.execute('create table t (id int primary key, constraint c check (id > 0))')")
        assert await box("local c = box.space.T.ck_constraint.C return c.name, c.expr, c.is_enabled") == [
            "C",
            "id > 0",
            True,
        ]
        await box("box.space.T.ck_constraint.C:enable(false)")
        assert await box("return box.space.T.ck_constraint.C.is_enabled") is False
        await box("box.space.T.ck_constraint.C:drop()")
        assert await box("return box.space.T.ck_constraint.C") is None

    run(body)


def test_full_metadata_visits_its_keys_in_one_order(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(
            """box.execute([[create table t (id int primary key autoincrement, c text collate "unicode_ci")]])
            box.execute([[set session "sql_full_metadata" = true]])
            function keys(number)
                local found = {}
                for key in pairs(box.execute([[select id, c, c collate "unicode" from t]]).metadata[number]) do
                    table.insert(found, key)
                end
                return table.concat(found, ' ')
            end"""
        )
        orders = [
            "span type is_autoincrement name is_nullable",
            "span type is_nullable name collation",
            "type span name collation",
        ]
        found = await box("return keys(1), keys(2), keys(3), jit.version_num >= 20100")
        if found.pop():  # LuaJIT 2.1 has another order
            found, orders = ([sorted(text.split()) for text in texts] for texts in (found, orders))
        assert found == orders

    run(body)


def test_a_message_can_be_read_as_a_field_of_a_structure(run: Run) -> None:
    async def body(box: Box) -> None:
        text = "local _, e = box.execute('selec') return require('ffi').string(e._errmsg), e:unpack()._errmsg"
        assert await box(text) == ["Syntax error at line 1 near 'selec'", None]

    run(body)


def test_a_tuple_of_a_map_may_have_many_gaps(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(
            """local s, fields = box.schema.space.create('s'), {}
            for number = 1, 66 do fields[number] = {name = 'X' .. number, type = 'integer', is_nullable = true} end
            s:create_index('pk') s:format(fields)"""
        )
        assert await box("return box.space.s:frommap({X1 = 1, X65 = 2})") == [1, *[None] * 63, 2]

    run(body)


def test_wrong_arguments_of_statements_and_parameters(run: Run) -> None:
    """The texts are those of 2.8.1."""
    program = """
        local ffi = require('ffi')
        local p = box.prepare('SELECT ?')
        local function raised(...) return (select(2, pcall(...))) end
        local function returned(...) return (select(2, box.execute(...))).message end
        return {
            raised(p.execute), raised(p.execute, {}), raised(p.execute, p, {}, {}), raised(p.unprepare),
            raised(box.unprepare, {}), raised(box.unprepare, -1), raised(box.execute, -1), raised(box.execute, 5ULL),
            returned('SELECT ?', {box.tuple.new{1}}), returned('SELECT ?', {ffi.new('struct {int a;}')}),
            returned('SELECT :a', {{[':a'] = print}}), returned('SELECT :a', {{[5] = 1}}), returned(2^53),
            returned('SELECT 1 AS ""'),
            returned('SELECT ?', {box.error.new{reason = 'x'}}), returned('SELECT ?', {{}}),
            returned('SELECT ?', {{[true] = 1}}), returned('SELECT ?', {setmetatable({}, {__serialize = 'wrong'})}),
            returned('SELECT ?', {setmetatable({1, 2}, {__serialize = function() return 5 end})}),
            returned('SELECT :a', {{[':a'] = setmetatable({}, {__serialize = 'wrong'})}}),
        }
    """
    execute = "Usage: statement:execute([, params])"
    expected = [
        execute,
        "Query id is expected to be numeric",
        execute,
        "Usage: statement:unprepare() or box.unprepare(stmt_id)",
        "Statement id is expected to be numeric",
        "Statement id can't be negative",
        "Statement id can't be negative",
        "Usage: box.execute(sqlstring[, params]) or box.execute(stmt_id[, params])",
        "Bind value type USERDATA for parameter 1 is not supported",
        "Bind value type USERDATA for parameter 1 is not supported",
        "Bind value type USERDATA for parameter ':a' is not supported",
        "Parameter '5' was not found in the statement",
        "Prepared statement with id 0 does not exist",
        "Invalid identifier '' (expected printable symbols only or it is too long)",
        "Bind value type USERDATA for parameter 1 is not supported",
        "Illegal parameters, name of the parameter should be a string.",
        "Illegal parameters, name of the parameter should be a string.",
        "Illegal parameters, name of the parameter should be a string.",
        "Illegal parameters, SQL bind named parameter should be a table with one key - {name = value}",
        "invalid __serialize value",
    ]

    async def body(box: Box) -> None:
        assert await box(program) == expected

    run(body)


def test_many_rows_become_tuples_in_pieces(run: Run) -> None:
    """Others run between the pieces; in a transaction there is no pause, which would abort it."""

    async def body(box: Box) -> None:
        await box(
            "box.execute('create table t (id int primary key, s text)')"
            "box.begin() for id = 1, 4500 do box.space.T:insert{id, 'text ' .. id} end box.commit()"
        )
        await box(
            """
            fiber, turns = require('fiber'), 0
            function beside() while turns >= 0 do turns = turns + 1 fiber.yield() end end
            function sums()
                local rows, sum = box.execute('select id, s from t').rows, 0
                for number, row in ipairs(rows) do
                    assert(box.tuple.is(row) and row[1] == number and row[2] == 'text ' .. number and #row == 2)
                end
                return #rows
            end
            """
        )
        assert await box("fiber.create(beside) local before = turns return sums(), turns - before > 4") == [4500, True]
        assert await box(
            "box.begin() local before = turns local count = sums() before = turns - before box.commit() turns = -10"
            " return count, before"
        ) == [4500, 0]
        assert await box(
            """
            local left, problem = fiber.new(function() return box.execute('select id, s from t') end)
            left:set_joinable(true)
            for _ = 1, 4 do fiber.yield() end
            left:cancel()
            local _, result, error = left:join()
            return result, tostring(error)
            """
        ) == [None, "fiber is cancelled"]
        assert await box("return sums()") == 4500

    run(body)


def test_indexes_that_do_not_hold_the_columns_of_all_rows(run: Run) -> None:
    """An index without the rows with nil serves conditions that nil never meets, and INDEXED BY; a functional index
    serves none.
    """

    async def body(box: Box) -> None:
        await box(
            """
            box.execute('create table j (id int primary key, s string, a int)')
            box.space.J:create_index('I3', {parts = {{2, 'string', exclude_null = true}}})
            box.schema.func.create('half', {
                body = 'function(t) return {math.floor(t[1] / 2), t[1]} end', is_deterministic = true,
                is_sandboxed = true,
            })
            box.space.J:create_index('I4', {func = 'half', parts = {{1, 'integer'}, {2, 'integer'}}})
            box.execute("insert into j values (1, null, 5), (2, '', 6), (3, 'a', 7), (4, null, 8), (5, null, 9)")
            function rows(text)
                local found = {}
                for _, row in ipairs(assert(box.execute(text)).rows) do
                    table.insert(found, row[1])
                end
                return found
            end
            """
        )
        assert await box("return rows('select count(*) from j group by s')") == [3, 1, 1]
        assert await box("return rows('select id from j order by s, id')") == [1, 4, 5, 2, 3]
        assert await box("return rows([[select id from j where s > '']])") == [3]
        assert await box("return rows([[select count(*) from j where s is null]])") == [3]
        assert await box("return rows('select id from j where id = 5 and s is null')") == [5]
        assert await box("return rows('select id from j where id between 3 and 4')") == [3, 4]
        assert await box("return rows('select id from j indexed by I3')") == [2, 3]
        assert await box("return rows('select count(*) from j as x indexed by I3 where a > 6')") == [1]
        assert await box("return box.execute('update j indexed by I3 set a = 0')") == {"row_count": 2}
        assert await box("return rows('select sum(a) from j')") == [22]

    run(body)


def test_varbinary_in_the_text_of_a_tuple(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("box.execute('create table t (id int primary key, v varbinary)')")
        await box("""box.execute("insert into t values (1, x''), (2, x'00ff')")""")
        assert await box("return tostring(box.space.T:get(1)), tostring(box.space.T:get(2))") == [
            "[1, !!binary '']",
            "[2, !!binary AP8=]",
        ]

    run(body)
