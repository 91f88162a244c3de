"""What `box.stat` counts and which ids sessions get, as in Tarantool."""

from __future__ import annotations

from .box_support import Box, Run

DELTA = """
function delta(f, ...)
    local before = box.stat()
    pcall(f, ...)
    local after, changed = box.stat(), {}
    for name, counter in pairs(after) do
        if counter.total ~= before[name].total then
            changed[name] = counter.total - before[name].total
        end
    end
    return changed
end
"""


def test_statements_of_sql_count_no_selects(run: Run) -> None:
    """Reads of SQL are no SELECT; changes count, and DROP TABLE is three deletions."""

    async def body(box: Box) -> None:
        await box(
            DELTA + "box.execute('create table t1 (id int primary key)') box.execute('insert into t1 values (1)')"
        )
        for statement, changed in (
            ("select * from t1", {"EXECUTE": 1}),
            ("select * from t1 where id = 1", {"EXECUTE": 1}),
            ("update t1 set id = 2", {"EXECUTE": 1, "UPDATE": 1, "ERROR": 1}),
            ("delete from t1", {"EXECUTE": 1, "DELETE": 1}),
            ("drop table t1", {"EXECUTE": 1, "DELETE": 3}),
        ):
            assert await box(f"return delta(box.execute, '{statement}')") == changed, statement

    run(body)


def test_a_start_reads_the_schema_version(run: Run) -> None:
    """The automatic upgrade and the warning about an old schema read it; nothing else of a start counts."""

    async def body(box: Box) -> None:
        await box("local b = box.stat() first = {b.SELECT.total, b.INSERT.total, b.REPLACE.total, b.EXECUTE.total}")
        assert await box("return first") == [2, 0, 0, 0]

    run(body)


def test_a_new_format_reads_nothing(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(DELTA + "s = box.schema.space.create('u')")
        assert await box("return delta(s.format, s, {{'a', 'unsigned'}})") == {"UPDATE": 1}
        assert await box("return s:format()[1].name") == "a"

    run(body)


def test_what_an_upsert_ignores_is_an_error(run: Run) -> None:
    """Operations that fail and a change of the primary key are counted, in a transaction as well."""

    async def body(box: Box) -> None:
        await box(DELTA + "s = box.schema.space.create('u') s:create_index('pk') s:insert{1, 1}")
        wrong = "s:upsert({1, 1}, {{'+', 7, 1}, {'-', 8, 1}}) s:upsert({1, 1}, {{'=', 1, 7}})"
        assert await box(f"return delta(function() {wrong} end)") == {"UPSERT": 2, "ERROR": 3}
        assert await box(f"return delta(function() box.begin() {wrong} box.commit() end)") == {"UPSERT": 2, "ERROR": 3}
        assert await box("return s:select()") == [[1, 1]]

    run(body)


def test_a_refused_connection_is_one_error(run: Run) -> None:
    """A server counts that it has refused a user; a client does not count that it has no connection."""

    async def body(box: Box) -> None:
        await box(DELTA + "net = require('net.box') box.cfg{listen = '127.0.0.1:0'}")
        refused = "net.connect('nouser:x@' .. box.info.listen):close()"
        assert await box(f"return delta(function() {refused} end)") == {"AUTH": 1, "ERROR": 1}
        assert await box("return delta(function() net.connect('127.0.0.1:1'):close() end)") == []

    run(body)


def test_sessions_are_made_for_who_asks(run: Run) -> None:
    """A start and connections of net.box use no ids of sessions."""

    async def body(box: Box) -> None:
        await box("net = require('net.box') box.cfg{listen = '127.0.0.1:0'}")
        await box("box.schema.user.grant('guest', 'execute', 'universe')")
        ids = "net.connect(box.info.listen):eval('return box.session.id()')"
        assert await box(f"local a, b = {ids}, {ids} return b - a") == 1
        assert await box("return box.session.id()") == 1

    run(body)


def test_a_ping_is_a_header_without_a_body(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("net = require('net.box') box.cfg{listen = '127.0.0.1:0'} c = net.connect(box.info.listen)")
        assert (
            await box("""
            local before = box.stat.net().RECEIVED.total
            assert(c:ping())
            return box.stat.net().RECEIVED.total - before""")
            == 10
        )

    run(body)


def test_the_start_opens_no_sessions(run: Run) -> None:
    """The first fiber that asks for its session gets the next id after those of the test's own sessions."""

    async def body(box: Box) -> None:
        before = box.ctx.session.id
        await box.raw("box.cfg{log_level = 1}")
        assert box.instance.node.new_context().session.id == before + 1

    run(body, configure=False)
