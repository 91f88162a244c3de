"""Calls with arguments that Tarantool takes in a way of its own: extra ones, wrong types, unusual generators."""

from __future__ import annotations

from .box_support import Box, Run


def test_the_generator_of_a_tuple_is_an_iterator_object(run: Run) -> None:
    """`pairs` of a tuple gives a cdata that can be called from any position, forwards and back."""

    async def body(box: Box) -> None:
        await box("t = box.tuple.new{10, 20, 30} it = t:pairs()")
        assert await box("return type(it.gen), tostring(it.gen), it.gen == t:pairs().gen") == [
            "cdata",
            "<tuple iterator>",
            False,
        ]
        calls = "{it.gen(t, 1)}, {it.gen(t, 0)}, {it.gen(t, 2)}, {it.gen(t, 3)}, {it.gen(t)}, it:totable()"
        assert await box("return " + calls) == [[2, 20], [1, 10], [3, 30], [], [1, 10], [10, 20, 30]]
        for position in ("-1", "4", "'x'"):
            assert "error: invalid key to 'next'" in await box.fails(f"return it.gen(t, {position})")
        other = "local o = box.tuple.new{7, 8} return {it.gen(o, 1)}, {it.gen(t, 1)}"
        assert await box(other) == [[2, 8], [2, 20]]

    run(body)


def test_wide_tuples_are_iterated(run: Run) -> None:
    """A loop over a tuple of many fields reads each once, and `find` starts where it is told."""

    async def body(box: Box) -> None:
        await box("l = {} for i = 1, 500 do l[i] = i % 100 end t = box.tuple.new(l)")
        assert await box("local sum = 0 for _, v in t:pairs() do sum = sum + v end return sum") == 24750
        assert await box("return t:find(150, 10), #t:findall(10), t:pairs(498):totable()") == [210, 5, [99, 0]]

    run(body)


def test_triggers_with_too_many_arguments(run: Run) -> None:
    """With a third argument the last but one becomes the trigger, even if it is no function."""

    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('s') s:create_index('pk') f = function() n = (n or 0) + 1 end")
        assert await box("return s:on_replace(f, nil, 3)") is None
        assert await box.fails("s:insert{1}") == "attempt to call a nil value"
        assert await box("return #s:on_replace()") == 0
        assert await box.fails("s:on_replace(nil, f)") == "test:1: trigger reset: Trigger is not found"
        await box("q = box.schema.space.create('q') q:create_index('pk')")
        assert await box("return q:on_replace(f, nil, 7, 8), q:on_replace()") == [7, [7]]
        assert await box.fails("q:insert{1}") == "attempt to call a number value"
        await box("r = box.schema.space.create('r') r:create_index('pk') r:on_replace(f, nil, f, 8)")
        assert await box("r:insert{1} return n, r:on_replace()[1] == f") == [1, True]

    run(body)


def test_a_trigger_that_is_nil_is_replaced_by_the_next_one(run: Run) -> None:
    """A nil that was registered by mistake gives way to the next trigger."""

    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('s') s:create_index('pk') f = function() n = (n or 0) + 1 end")
        await box("s:on_replace(f, nil, 3) s:on_replace(f, nil, 'name') s:on_replace(f)")
        assert await box("s:insert{1} return n, #s:on_replace()") == [1, 1]
        await box("s:on_replace(nil, f)")
        assert await box("s:insert{2} return n, #s:on_replace()") == [1, 0]

    run(body)


def test_box_cfg_of_a_value_that_is_no_table(run: Run) -> None:
    """The error of `box.cfg(1)` has its position twice."""

    async def body(box: Box) -> None:
        message = await box.fails("box.cfg(1)")
        assert message.count("builtin/box/load_cfg.lua:") == 2
        assert message.endswith("bad argument #1 to 'pairs' (table expected, got number)")

    run(body)


def test_arguments_of_collations(run: Run) -> None:
    """The options of a collation must be a table or nil; the other arguments are checked before."""

    async def body(box: Box) -> None:
        create = "box.internal.collation.create"
        fourth = "Illegal parameters, options (fourth arg) must be a table or nil"
        for options in ("1", "'x'", "box.NULL", "print"):
            assert await box.fails(f"{create}('c', 'ICU', '', {options})") == fourth
        assert "name (first arg)" in await box.fails(f"{create}(1, 'ICU', '', 1)")
        assert "locale (third arg)" in await box.fails(f"{create}('c', 'ICU', 1, 1)")
        await box(f"{create}('c', 'ICU', '', false)")
        for value in ("DEFAULT", "default", ""):
            text = "ICU wrong strength option setting, expected PRIMARY"
            assert text in await box.fails(f"{create}('d', 'ICU', '', {{strength = '{value}'}})")
        assert "index local 'coll' (a nil value)" in await box.fails("box.internal.collation.id_by_name('nope')")

    run(body)


def test_tempdir_ignores_a_base_of_another_type(run: Run) -> None:
    """`fio.tempdir(1)` makes its directory in the usual place."""

    async def body(box: Box) -> None:
        await box("fio = require('fio') d = fio.tempdir(1)")
        assert await box("return fio.dirname(d) == (os.getenv('TMPDIR') or '/tmp'), fio.rmdir(d)") == [True, True]

    run(body)


def test_texts_of_net_box_for_what_is_no_text(run: Run) -> None:
    """A number is an expression, other values are an empty one; wrong options are named as Tarantool names them."""

    async def body(box: Box) -> None:
        await box("box.cfg{listen = '127.0.0.1:0'} box.schema.user.grant('guest', 'execute', 'universe')")
        await box("c = require('net.box').connect(box.info.listen)")
        assert await box.fails("c:eval(1)") == "eval:1: unexpected symbol near '1'"
        assert await box("return select('#', c:eval(), c:eval({}), c:eval(true))") == 2
        assert await box.fails("c:execute({})") == "Failed to execute an empty SQL statement"
        assert "attempt to index local 'opts' (a number value)" in await box.fails("c:call('x', {}, 1)")
        buffer = await box.fails("c:eval('return 1', {}, {buffer = 1})")
        assert "attempt to index local 'buffer' (a number value)" in buffer

    run(body)


def test_sizes_of_reads_that_are_no_numbers(run: Run) -> None:
    """A file refuses them with the error of the buffer that Tarantool reads into; `chown` gives one value."""

    async def body(box: Box) -> None:
        await box("fio = require('fio') p = fio.pathjoin(fio.tempdir(), 'x')")
        await box("f = fio.open(p, {'O_CREAT', 'O_RDWR'}, tonumber('644', 8))")
        expected = "attempt to perform arithmetic on 'char *' and '%s'"
        for call, kind in (("f:read('x')", "string"), ("f:read({})", "table"), ("f:pread()", "nil")):
            place, _, message = (await box.fails(call)).partition(": ")
            assert place.startswith("builtin/buffer.lua:")
            assert message == expected % kind
        assert await box("return f:read(nil), f:pread(1)") == ["", ""]
        assert await box("return select('#', fio.chown(p, -1, -1))") == 1
        assert (await box.fails("fio.mktree()")).startswith("builtin/fio.lua:")

    run(body)
