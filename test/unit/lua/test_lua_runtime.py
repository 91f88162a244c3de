"""The boundary between Python and Lua: evaluation, calls, errors, nested calls, contexts, the end."""

from __future__ import annotations

import asyncio
import gc
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgpack
import pytest

from box.errors import BoxError, ErrorCode
from lua.runtime import Runtime, decode_error, encode_error
from test.support import until

from .support import Lua, open_lua

Run = Callable[..., Any]
Evaluate = Callable[..., list[Any]]


def test_values_cross_as_messagepack(evaluate: Evaluate) -> None:
    """Values cross unchanged as MessagePack; an empty table that came as a map stays one."""
    args = [1, -1, 1.5, "text", None, True, [1, [2]], {"a": 1}, [], {}, 2**53, 2**64 - 1, -(2**63)]
    assert evaluate("return ...", *args) == args


def test_no_results(evaluate: Evaluate) -> None:
    assert evaluate("local x = 1") == []


def test_many_arguments(evaluate: Evaluate) -> None:
    assert evaluate("return select('#', ...)", *range(5000)) == [5000]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("error('boo')", "eval:1: boo"),
        ("error('boo', 0)", "boo"),
        ("error()", "nil"),
        ("return x.y", "eval:1: attempt to index global 'x' (a nil value)"),
        ("x = = 1", "eval:1: unexpected symbol near '='"),
        ("coroutine.wrap(function() error('boo') end)() x = 1", "eval:1: eval:1: boo"),
        ("coroutine.wrap(function() error('boo', 0) end)() x = 1", "eval:1: boo"),
        ("return coroutine.wrap(function() error('boo') end)()", "eval:1: boo"),
    ],
)
def test_lua_errors_become_luajit_errors(run: Run, source: str, text: str) -> None:
    """Any Lua error reaches Python as a BoxError with the code PROC_LUA."""

    async def test(lua: Lua) -> None:
        with pytest.raises(BoxError) as caught:
            await lua.eval(source)
        assert (caught.value.type, caught.value.code, caught.value.message) == ("LuajitError", ErrorCode.PROC_LUA, text)

    run(test)


def test_error_objects_keep_their_fields_both_ways(run: Run) -> None:
    """An error that goes from Python to Lua and back is the same, with its cause."""
    cause = BoxError(ErrorCode.ILLEGAL_PARAMS, "cause")
    error = BoxError(
        5, "text", type="CustomError", custom_type="Mine", file="a.lua", line=7, prev=cause, fields={"extra": "x"}
    )

    async def test(lua: Lua) -> None:
        lua.runtime.bind("failing", lambda: (False, encode_error(error)))
        seen = await lua.eval(
            """local ok, e = pcall(function()
                return require('internal.wait')(require('internal.python').failing())
            end)
            return ok, type(e), e.type, e.base_type, e.code, e.message, e.prev.message, e.extra, e.trace[1].line"""
        )
        assert seen == [False, "cdata", "Mine", "CustomError", 5, "text", "cause", "x", 7]
        with pytest.raises(BoxError) as caught:
            await lua.eval("return require('internal.wait')(require('internal.python').failing())")
        assert isinstance(decode_error(encode_error(caught.value)), BoxError)
        assert encode_error(caught.value) == encode_error(error)

    run(test)


def test_call_by_name(run: Run) -> None:
    """In names of functions dots lead through tables and a colon calls a method; an unknown name is NO_SUCH_PROC."""

    async def test(lua: Lua) -> None:
        await lua.eval("a = {b = {c = function(...) return ... end, n = 5, get = function(s, x) return s.n + x end}}")
        assert await lua.runtime.call("a.b.c", msgpack.packb([1, 2])) == msgpack.packb([1, 2])
        assert await lua.runtime.call("a.b:get", msgpack.packb([1])) == msgpack.packb([6])
        for name in ("nope", "a.nope.c", "a.b.n", "", "a.b:nope", "string.nope"):
            with pytest.raises(BoxError) as caught:
                await lua.runtime.call(name)
            assert caught.value.code == ErrorCode.NO_SUCH_PROC
            assert caught.value.message == f"Procedure '{name}' is not defined"

    run(test)


def test_call_by_handle_and_release(run: Run) -> None:
    async def test(lua: Lua) -> None:
        handle = lua.runtime.compile(b"return function(a, b) return a + b end", "=test")
        assert await lua.runtime.call(handle, msgpack.packb([1, 2])) == msgpack.packb([3])
        lua.runtime.release(handle)
        assert lua.runtime.compile(b"return print", "=test") == handle

    run(test)


def test_serializer_runs_in_the_same_fiber(run: Run) -> None:
    """`__serialize` of a result runs in the fiber of the evaluation, and may wait."""

    async def test(lua: Lua) -> None:
        handle = lua.runtime.compile(
            b"""local fiber = require('fiber')
            return function(...)
                fiber.sleep(0)
                return ('%d of %s'):format(select('#', ...), fiber.name())
            end""",
            "=test",
        )
        assert await lua.runtime.eval(b"return 1, nil", serializer=handle, name="console") == b"2 of console"

    run(test)


def test_lua_reaches_nothing_of_python(run: Run) -> None:
    """No global leads from Lua to Python, and a bound function shows no attributes."""

    async def test(lua: Lua) -> None:
        assert await lua.eval("return python, package.loaded.python") == [None, None]
        lua.runtime.bind("noop", lambda: None, is_direct=True)
        for expression in ("noop.__globals__", "noop['__code__']", "noop.__class__"):
            with pytest.raises(BoxError, match="no access to"):
                await lua.eval(f"return require('internal.python').{expression}")

    run(test)


def test_a_raising_bound_function_is_an_error_in_lua(run: Run) -> None:
    """An exception in a bound function is a Lua error, and the node goes on."""

    async def test(lua: Lua) -> None:
        lua.runtime.bind("broken", lambda: 1 // 0)
        assert (await lua.eval("return (pcall(require('internal.python').broken))")) == [False]
        with pytest.raises(BoxError, match="internal error, see the log"):
            await lua.eval("require('internal.python').broken()")
        assert lua.logged[0][0] == "crit"
        assert "1 // 0" in lua.logged[0][1]
        assert await lua.value("return 1") == 1

    run(test)


# ---- calls from inside a bound function ----


def test_a_nested_call_runs_at_once_in_the_same_fiber(run: Run) -> None:
    """Nested calls between Lua and Python run at once in the same fiber, many levels deep, with the
    collector running.
    """

    async def test(lua: Lua) -> None:
        runtime = lua.runtime
        handle = runtime.compile(
            b"""local python, fiber = require('internal.python'), require('fiber')
            local depth = 0
            return function(n)
                collectgarbage()
                local junk = {}
                for i = 1, 50 do junk[i] = {tostring(i)} end
                if n == 0 then return fiber.id() end
                return coroutine.wrap(function() return (python.again(n - 1)) end)()
            end""",
            "=nested",
        )
        runtime.bind("again", lambda n: runtime.invoke_now(handle, n, ctx=runtime.ctx)[0])
        ids = await lua.eval("local f = require('fiber') return f.id(), require('internal.python').again(60)")
        assert ids[0] == ids[1]

    run(test)


def test_a_nested_call_that_waits_is_a_pending_future(run: Run) -> None:
    """A nested call that waits gives a future; the trigger and its statement share the fiber and its storage."""

    async def test(lua: Lua) -> None:
        runtime = lua.runtime
        trigger = runtime.compile(
            b"""local fiber = require('fiber')
            return function(x)
                fiber.sleep(0.001)
                fiber.self().storage.seen = x
                return fiber.id(), x * 2
            end""",
            "=trigger",
        )

        async def statement(x: int) -> tuple[Any, ...]:
            first = await runtime.invoke(trigger, x, ctx=ctx_of_fiber[0])
            second = await runtime.invoke(trigger, first[1], ctx=ctx_of_fiber[0])
            return first[0], *second

        ctx_of_fiber: list[Any] = []

        def begin(x: int) -> Any:
            ctx_of_fiber[:] = [runtime.ctx]
            return runtime.drive(statement(x))

        runtime.bind("statement", begin)
        own, first, second, value, seen = await lua.eval("""
            local fiber = require('fiber')
            local function all(...) return fiber.id(), ... end
            local a, b, c, d = all(require('internal.wait')(require('internal.python').statement(5)))
            return a, b, c, d, fiber.self().storage.seen""")
        assert own == first == second
        assert (value, seen) == (20, 10)

    run(test)


def test_a_nested_error_comes_back(run: Run) -> None:
    async def test(lua: Lua) -> None:
        runtime = lua.runtime
        bad = runtime.compile(b"return function() error('in trigger') end", "=trigger")

        def statement() -> Any:
            try:
                return runtime.invoke_now(bad)
            except BoxError as error:
                return False, encode_error(error)

        runtime.bind("statement", statement)
        with pytest.raises(BoxError, match="trigger:1: in trigger"):
            await lua.eval("require('internal.wait')(require('internal.python').statement())")

    run(test)


def test_invoke_now_refuses_to_wait(run: Run) -> None:
    async def test(lua: Lua) -> None:
        handle = lua.runtime.compile(b"return function() require('fiber').sleep(100) end", "=sleeper")
        with pytest.raises(BoxError, match="must not wait"):
            lua.runtime.invoke_now(handle)

    run(test)


def test_cancelling_the_caller_cancels_the_fiber(run: Run) -> None:
    async def test(lua: Lua) -> None:
        task = asyncio.ensure_future(lua.eval("ok, problem = pcall(require('fiber').sleep, 100)"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: lua.value("return ok ~= nil"), "the end of the wait")
        assert await lua.eval("return ok, problem.type") == [False, "FiberIsCancelled"]

    run(test)


# ---- contexts ----


class _Context:
    made = 0

    def __init__(self) -> None:
        _Context.made += 1
        self.ended = False


def test_a_fiber_has_a_context_of_its_own_when_asked(run: Run) -> None:
    """A fiber gets a context when it asks for one, which ends with it; it is not inherited."""
    ended: list[_Context] = []

    async def test(lua: Lua) -> None:
        seen: list[_Context] = []
        _Context.made = 0
        lua.runtime.bind("context", lambda: seen.append(lua.runtime.ctx))
        await lua.eval("""
            local fiber, python = require('fiber'), require('internal.python')
            python.context() fiber.yield() python.context()
            local ended = 0
            fiber.create(function() python.context() fiber.sleep(0) python.context() ended = ended + 1 end)
            fiber.create(function() fiber.sleep(0) ended = ended + 1 end)
            while ended < 2 do fiber.yield() end""")
        assert _Context.made == 2
        assert seen[0] is seen[1]
        assert seen[2] is seen[3]
        assert ended == [seen[2], seen[0]]
        assert not lua.runtime.contexts
        assert not lua.runtime._fiber_of

    run(test, new_context=_Context, end_context=ended.append)


def test_a_given_context_is_used_and_not_ended(run: Run) -> None:
    ended: list[Any] = []

    async def test(lua: Lua) -> None:
        mine, seen = object(), []
        lua.runtime.bind("context", lambda: seen.append(lua.runtime.ctx))
        await lua.eval("require('fiber').sleep(0) require('internal.python').context()", ctx=mine)
        assert seen == [mine]
        assert ended == []

    run(test, end_context=ended.append)


# ---- the rest ----


def test_print_and_exit_are_injected(run: Run) -> None:
    async def test(lua: Lua) -> None:
        await lua.eval("print('a', 1, nil, true) print()")
        assert lua.printed == b"a\t1\tnil\ttrue\n\n"
        task = asyncio.ensure_future(lua.eval("os.exit(3) print('never')"))
        await until(lambda: bool(lua.exits))
        await lua.eval("for _ = 1, 10 do require('fiber').yield() end")  # whoever could go on has gone on
        assert lua.exits == [3]
        assert not task.done()
        assert b"never" not in lua.printed
        task.cancel()

    run(test)


def test_errors_of_detached_fibers_are_logged(run: Run) -> None:
    async def test(lua: Lua) -> None:
        await lua.eval("""local fiber = require('fiber')
            fiber.create(function() error('lost') end)
            fiber.create(function() fiber.sleep(100) end):cancel()
            fiber.yield()""")
        assert lua.logged == [("error", "LuajitError: eval:2: lost")]

    run(test)


def test_close_leaves_nothing_behind(flavour: str) -> None:
    """After close no timer, task or future of sleeping fibers, coroutines and pending calls is left."""

    async def main() -> None:
        before = asyncio.all_tasks()
        async with open_lua(flavour) as lua:

            async def forever() -> None:
                await asyncio.get_running_loop().create_future()

            lua.runtime.bind("forever", lambda: lua.runtime.drive(forever()))
            pending = [
                asyncio.ensure_future(lua.eval("require('fiber').sleep(1000)")),
                asyncio.ensure_future(lua.eval("require('internal.wait')(require('internal.python').forever())")),
            ]
            await asyncio.sleep(0)
            waits = lua.runtime.waits
        assert not waits._timers
        assert not waits._tokens
        results = await asyncio.gather(*pending, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert asyncio.all_tasks() == before
        with pytest.raises(RuntimeError, match="the Lua runtime is closed"):
            await lua.eval("return 1")

    asyncio.run(main())


def test_two_runtimes_in_one_loop(flavour: str) -> None:
    async def main() -> None:
        async with open_lua(flavour) as one, open_lua(flavour) as two:
            await one.eval("x = 1")
            assert await two.eval("return x") == [None]
            results = await asyncio.gather(
                *(lua.eval("require('fiber').sleep(0.001) x = (x or 0) + 1 return x") for lua in (one, two))
            )
            assert results == [[2], [1]]

    asyncio.run(main())


def test_unknown_flavour() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="unknown Lua flavour 'lua99'"):
            Runtime(flavour="lua99")

    asyncio.run(main())


def test_calls_do_not_leak(run: Run) -> None:
    """Evaluations, nested calls, waits and fibers do not make Lua's heap or the process grow."""

    async def test(lua: Lua) -> None:
        runtime = lua.runtime
        inner = runtime.compile(b"return function(x) return x end", "=inner")

        async def nested() -> Any:
            await asyncio.sleep(0)
            return (await runtime.invoke(inner, 1, ctx=None))[0]

        runtime.bind("now", lambda: runtime.invoke_now(inner, 1)[0])
        runtime.bind("later", lambda: runtime.drive(nested()))
        source = """
            local fiber, wait, python = require('fiber'), require('internal.wait'), require('internal.python')
            for _ = 1, 20 do
                python.now() wait(python.later())
                fiber.create(function() fiber.sleep(0) fiber.self().storage.x = 1 end)
                fiber.self()
                pcall(error, 'x')
            end
            collectgarbage() collectgarbage()
            return collectgarbage('count')"""
        for _ in range(20):
            await lua.value(source)
        gc.collect()
        objects, heap = len(gc.get_objects()), await lua.value(source)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(100):
            last = await lua.value(source)
        gc.collect()
        assert last - heap < 1500  # LuaJIT 2.1 keeps some 700 KiB of compiled traces
        assert len(gc.get_objects()) - objects < 200
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8192
        assert not runtime._activations
        assert not runtime.waits._tokens

    run(test)


def test_a_driven_coroutine_that_is_cancelled_before_it_goes_on_learns_of_it(run: Run) -> None:
    """A coroutine cancelled before it goes on, as by `asyncio.timeout(0)`, gets the cancellation."""

    async def wait_with_deadline() -> bytes:
        try:
            async with asyncio.timeout(0):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            return b"timed out"
        return b"never"

    async def test(lua: Lua) -> None:
        runtime = lua.runtime
        runtime.bind("wait_with_deadline", lambda: runtime.drive(wait_with_deadline()))
        source = "return require('internal.wait')(require('internal.python').wait_with_deadline())"
        assert await lua.value(source) == "timed out"

    run(test)


@contextmanager
def no_more_files() -> Iterator[None]:
    """No file can be opened in the block: the process has as many as it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_start_without_free_descriptors_says_so(run: Run) -> None:
    """A runtime that cannot read its first module says why, instead of running nothing."""

    async def test(lua: Lua) -> None:
        with no_more_files(), pytest.raises(OSError, match="Too many open files"):
            Runtime(flavour=lua.runtime.flavour)

    run(test)


def test_a_module_whose_file_cannot_be_read_is_not_missing(run: Run) -> None:
    """`require` of a built-in module names the error of the system, and finds the module once it is over."""

    async def test(lua: Lua) -> None:
        with no_more_files(), pytest.raises(BoxError, match="Too many open files"):
            await lua.eval("require('uri')")
        assert await lua.value("return type(require('uri'))") == "table"
        with pytest.raises(BoxError, match="module 'nothing_such' not found"):
            await lua.eval("require('nothing_such')")

    run(test)
