"""Changes in SQL that wait, with versions of tuples, while others change the definition of their table."""

from __future__ import annotations

import pytest

from .box_support import Box, Run

_TABLE = """
    fiber = require('fiber')
    box.schema.func.create('WAIT', {
        language = 'LUA', returns = 'integer', body = "function(a) require('fiber').sleep(0.001) return a end",
        param_list = {'integer'}, exports = {'LUA', 'SQL'},
    })
    box.execute('create table t (id int primary key, a int)')
    box.execute('insert into t values (1, 1), (2, 2)')
    box.execute('create table u (id int primary key, a int)')
    function beside(statement, definition)
        local f = fiber.new(function() return box.execute(statement) end)
        f:set_joinable(true)
        fiber.yield()
        assert(f:status() == 'suspended')
        assert(box.execute(definition))
        local ok, result, problem = f:join()
        return ok, result and result.row_count, tostring(problem)
    end
"""


def test_a_function_waits_while_a_column_is_added(run: Run) -> None:
    """No row is inserted yet, so the statement begins again."""

    async def body(box: Box) -> None:
        await box(_TABLE)
        result = await box(
            "return beside('insert into u (id, a) select id, wait(a) from t', 'alter table u add column b int')"
        )
        assert result == [True, 2, "nil"]
        assert await box("return box.space.U:select()") == [[1, 1, None], [2, 2, None]]

    run(body, memtx_use_mvcc_engine=True)


@pytest.mark.parametrize("definition", ["drop table t", "alter table t rename to s"])
@pytest.mark.parametrize(
    "statement", ["insert into t values (wait(3), 3)", "update t set a = wait(5)", "delete from t where wait(a) = 2"]
)
def test_a_function_waits_while_the_table_goes(run: Run, statement: str, definition: str) -> None:
    async def body(box: Box) -> None:
        await box(_TABLE)
        result = await box(f"return beside('{statement}', '{definition}')")
        assert result == [True, None, "Space 'T' does not exist"]

    run(body, memtx_use_mvcc_engine=True)


@pytest.mark.parametrize(
    ("statement", "definition"),
    [
        ("insert into u values (3, 3), (4, 4)", "alter table u add column b int"),
        ("insert into t values (3, 3), (4, 4)", "drop table t"),
        ("replace into t values (1, 7), (2, 8)", "alter table t rename to s"),
        ("update t set a = 5", "alter table t rename to s"),
        ("update t set a = 5", "drop table t"),
        ("delete from t where a > 0", "drop table t"),
    ],
)
def test_a_trigger_waits_during_a_definition(run: Run, statement: str, definition: str) -> None:
    """The first row has changed already, so the statement cannot begin again."""

    async def body(box: Box) -> None:
        await box(_TABLE)
        await box("wait = function() fiber.sleep(0.001) end box.space.T:on_replace(wait) box.space.U:on_replace(wait)")
        result = await box(f"return beside('{statement}', '{definition}')")
        assert result == [True, None, "Transaction has been aborted by conflict"]
        if definition != "drop table t":
            await box("t = box.space.T or box.space.S")
            assert await box("return t:select(), box.space.U:select()") == [[[1, 1], [2, 2]], []]

    run(body, memtx_use_mvcc_engine=True)
