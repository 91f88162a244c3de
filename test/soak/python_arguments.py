"""Calls every public Python function with hostile arguments.

    python -m test.soak.python_arguments [--seed N] [NAME...]

Each argument of each function is replaced by each hostile value; `--seed` replaces two at once, drawn from a seed. A
call may return, or raise a BoxError, an error of `box.dbapi`, a TypeError or a ValueError. Reported as finds:

```
another exception                    AttributeError, KeyError, UnicodeEncodeError, ...
an exception of Python itself        "'int' object is not iterable": no statement of this package has raised it
a long text                          an enormous value is repeated in the text
an accepted value                    of another type than the annotation of the argument says
a late exception                     of a task or in the log, after the call
a node that does not work any more
```

NAME limits the walk, for instance to `SpaceHandle.` or `SpaceHandle.select`. A call that hangs ends the process with
the stacks of all threads.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import inspect
import itertools
import linecache
import logging
import random
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Final, NamedTuple

import box
import box.dbapi
import box.sync
import box.testing
from box.embed.node_options import NodeOptions
from test.soak.hostile_values import hostile_values

_SECONDS_A_CALL: Final = 60
_LONGEST_TEXT: Final = 2000
_ALLOWED: Final = (box.BoxError, box.dbapi.Error)


class Shape(NamedTuple):
    """A class for rows."""

    id: int
    name: str


@dataclass
class Call:
    """A public function with arguments that it accepts."""

    name: str
    function: Callable[..., Any]
    usual: dict[str, Any]
    types: dict[str, str]
    """The annotation of each argument."""
    prepare: Callable[[], None] = lambda: None
    """Makes again what earlier calls may have changed."""


@dataclass
class Report:
    """What the walk has found."""

    finds: list[str] = field(default_factory=list)
    functions: int = 0
    seen: int = 0
    """The calls that a walk with all values had made so far."""
    calls: int = 0

    def add(self, text: str) -> None:
        print(f"FIND {' '.join(text.split())[:1500]}", flush=True)
        self.finds.append(text)


@dataclass
class Choice:
    """The calls that a walk makes."""

    names: Sequence[str] = ()
    """Beginnings of names of functions; empty for all."""
    seed: int | None = None
    """With a seed two arguments are replaced at once."""
    every: int = 1
    """The distance between the values that are taken; 1 takes all."""
    without_starts: bool = False

    def takes(self, name: str) -> bool:
        """Return True if the walk calls this function."""
        return not (self.without_starts and name == "Node") and name.startswith(tuple(self.names) or "")


# -- functions and the arguments that they accept

USUAL: Final[dict[str, Any]] = {
    "key": 1, "row": [1, "one"], "rows": [[1, "one"], [2, "two"]], "operations": {"name": "x"}, "seed": 1,
    "fields": [("id", "unsigned"), ("name", "string")], "function": lambda *_: None, "sql": "SELECT 1",
    "source": "return 1", "grantee": "carol", "privileges": "read", "password": "x", "value": 3, "rows_as.row": Shape,
    "rename.name": "renamed", "call.name": "tostring", "sequence.name": "numbers", "drop_user.name": "carol",
    "set_password.name": "carol", "drop_role.name": "clerks", "drop_function.name": "checked", "name": "made",
    "operation": "SELECT 1", "executemany.operation": "REPLACE INTO t VALUES (?)", "seq_of_parameters": [[1]],
    "size": 1, "sizes": [1], "epoch": 1, "params": (), "rate": 0.1,
}  # fmt: skip
"""The arguments that a function needs, by name or by `function.name`."""
SKIPPED: Final = {"setinputsizes", "setoutputsize"}
"""Functions that PEP 249 requires and that ignore their arguments."""
_INDEX_OPTIONS: Final = ("type", "parts", "unique", "id", "sequence", "if_not_exists", "dimension", "distance", "func")
_REQUIRED: Final = inspect.Parameter.empty


def call_of(owner: str, function: Callable[..., Any], options: Iterable[str] = ()) -> Call:
    """Return a public function with the arguments that it needs; `options` are the names of its further keywords."""
    name = function.__name__
    usual: dict[str, Any] = {}
    types: dict[str, str] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            continue
        types[parameter.name] = str(parameter.annotation)
        if parameter.default is _REQUIRED:
            known = f"{name}.{parameter.name}"
            usual[parameter.name] = USUAL[known if known in USUAL else parameter.name]
    return Call(f"{owner}.{name}", function, usual, types | dict.fromkeys(options, "Any"))


def methods(make: Callable[[], Any], keys: str = "") -> Iterator[Call]:
    """Yield the public methods of an object that have arguments. `make` makes the object anew, because a call may have
    changed it. `keys` names its item, if it has items.
    """
    one = make()
    owner = type(one).__name__
    for name in sorted(dir(type(one))):
        if name.startswith("_") or not inspect.isfunction(inspect.getattr_static(type(one), name)):
            continue
        options: Iterable[str] = ()
        if name in ("create_index", "alter"):
            options = _INDEX_OPTIONS
        elif name in ("configure", "change_options"):
            options = NodeOptions.__annotations__
        elif name == "create_space":
            options = [*inspect.signature(box.SchemaRequests.create_space).parameters][2:]
        if name in SKIPPED:
            continue
        call = call_of(owner, getattr(one, name), options)
        call.function = _bound(make, name)
        if name == "get" and keys:
            call.types = {}  # as in any mapping, whatever is no name is not there
        if call.types:
            yield call
    if keys:
        yield Call(f"{owner}[]", _bound(make, "__getitem__", "name"), {"name": keys}, {"name": "str"})  # type: ignore[attr-defined]


def _bound(make: Callable[[], Any], name: str, only: str = "") -> Callable[..., Any]:
    """Return a function that calls a method of a new object; `only` is the keyword whose value has no keyword there."""

    def run(**given: Any) -> Any:
        method = getattr(make(), name)
        return method(given[only]) if only else method(**given)

    return run


class World:
    """A running node of one kind and the objects whose methods are called."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def settle(self, outcome: Any) -> Any:
        """Wait for the outcome of a call, and read a few rows of an iteration."""
        if inspect.isawaitable(outcome):
            outcome = self.loop.run_until_complete(_limited(outcome))
        if isinstance(outcome, box.ChangeStream):
            outcome.close()
            self.loop.run_until_complete(_limited(_read(outcome)))
        elif isinstance(outcome, AsyncIterator):
            self.loop.run_until_complete(_limited(_read(outcome)))
        elif isinstance(outcome, Iterator) and not isinstance(outcome, box.sync.BlockingChanges):
            list(itertools.islice(outcome, 3))
        elif hasattr(outcome, "remove") and not isinstance(outcome, list):
            outcome.remove()
        elif hasattr(outcome, "close") and not isinstance(outcome, box.dbapi.DatabaseCursor):
            self.settle(outcome.close())
        return outcome

    def calls(self) -> Iterator[Call]:
        """Yield the functions."""
        raise NotImplementedError

    def works(self) -> bool:
        """Return True if the node stores and finds a row, after objects that calls have changed were made again."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop the node."""
        self.loop.close()


def _methods_of(node: Any) -> Iterator[Call]:
    """Yield the methods of a node of either kind, and of what it gives access to."""
    yield from methods(lambda: node)
    yield from methods(lambda: node.space, "goods")
    yield from methods(lambda: node.schema)
    yield from methods(lambda: node.space["goods"])
    yield from methods(lambda: node.space["goods"].index, "pk")
    yield from methods(lambda: node.space["goods"].index["pk"])
    yield from methods(lambda: node.schema.sequence("numbers"))


async def _limited(work: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(work, _SECONDS_A_CALL)


async def _read(rows: AsyncIterator[Any]) -> None:
    count = 0
    async for _ in rows:
        count += 1
        if count == 3:
            break


_RESET: Final = """
    box.rollback()
    if box.cfg.read_only then box.cfg{read_only = false} end
    if box.cfg.memtx_max_tuple_size ~= 1048576 then box.cfg{memtx_max_tuple_size = 1048576} end
    if box.info.ro then box.cfg{replication = {}} end
    for _, t in box.space._space:pairs({512}, {iterator = 'GE'}) do
        if t.name ~= 'goods' then box.space[t.id]:drop() end
    end
    local goods = box.space.goods
    if goods ~= nil and (goods.index.pk == nil or goods.index.pk.sequence_id ~= nil) then
        goods:drop()
        goods = nil
    end
    for _, t in box.space._func:pairs() do
        if t.language == 'LUA' and t.name ~= 'box.schema.user.info' then box.schema.func.drop(t.name) end
    end
    for _, t in box.space._user:pairs({32}, {iterator = 'GE'}) do
        local kind = t.type
        if t.name ~= 'carol' and t.name ~= 'super' then box.schema[kind].drop(t.name) end
    end
    for _, t in box.space._sequence:pairs() do
        if t.name ~= 'numbers' then box.schema.sequence.drop(t.name) end
    end
    box.schema.user.create('carol', {if_not_exists = true})
    box.schema.role.create('clerks', {if_not_exists = true})
    box.schema.sequence.create('numbers', {if_not_exists = true})
    box.schema.func.create('checked', {if_not_exists = true})
    if goods == nil then
        goods = box.schema.space.create('goods')
    end
    for i = 9, 1, -1 do
        if goods.index[i] ~= nil and (i > 1 or goods.index[i].name ~= 'name') then goods.index[i]:drop() end
    end
    goods:truncate()
    goods:format({{'id', 'unsigned'}, {'name', 'string'}})
    goods:create_index('pk', {if_not_exists = true})
    goods:create_index('name', {if_not_exists = true, unique = false, parts = {'name'}})
    goods:insert{1, 'one'}
    goods:insert{2, 'two'}
    return goods:count() == 2
"""


class AsynchronousWorld(World):
    """A `box.Node`."""

    def __init__(self) -> None:
        super().__init__()
        self.node = box.Node(log_level=1, replication_connect_timeout=0.01)
        self.loop.run_until_complete(self.node.start())

    def calls(self) -> Iterator[Call]:
        yield from _methods_of(self.node)
        yield from methods(lambda: self.settle_only(self.node.prepare("SELECT ?")))
        for hook in ("on_commit", "on_rollback"):
            yield Call(f"TransactionBlock.{hook}", self._hook(hook), {}, {"function": "PythonFunction"})

    def settle_only(self, work: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(_limited(work))

    def _hook(self, name: str) -> Callable[..., Any]:
        async def run(function: Any) -> None:
            async with self.node.transaction() as transaction:
                getattr(transaction, name)(function)

        return run

    def works(self) -> bool:
        return self.settle_only(self.node.eval(_RESET)) is True

    def close(self) -> None:
        self.loop.run_until_complete(self.node.stop())
        super().close()


class BlockingWorld(World):
    """A `box.sync.Node`, and connections of `box.dbapi` to it."""

    def __init__(self) -> None:
        super().__init__()
        self.node = box.sync.Node(log_level=1, replication_connect_timeout=0.01)
        self.node.start()
        self.connection = box.dbapi.connect(self.node, autocommit=True)

    def calls(self) -> Iterator[Call]:
        yield from _methods_of(self.node)
        yield from methods(lambda: self.node.prepare("SELECT ?"))
        for hook in ("on_commit", "on_rollback"):
            yield Call(f"BlockingTransaction.{hook}", self._hook(hook), {}, {"function": "PythonFunction"})
        yield from methods(self.connection.cursor)
        yield Call("DatabaseCursor.fetchmany", self._fetch, {}, {"size": "int | None"})
        yield Call("DatabaseCursor.arraysize", self._array_size, {}, {"size": "Any"})
        yield Call("DatabaseConnection.autocommit", self._autocommit, {}, {"value": "bool"})

    def _array_size(self, size: Any) -> None:
        cursor = self.connection.cursor()
        cursor.arraysize = size
        cursor.execute("SELECT 1").fetchmany()

    def _fetch(self, size: Any) -> None:
        self.connection.cursor().execute("SELECT 1").fetchmany(size)

    def _autocommit(self, value: Any) -> None:
        try:
            self.connection.autocommit = value
        finally:
            self.connection.autocommit = True

    def _hook(self, name: str) -> Callable[..., Any]:
        def run(function: Any) -> None:
            with self.node.transaction() as transaction:
                getattr(transaction, name)(function)

        return run

    def works(self) -> bool:
        return self.node.eval(_RESET) is True

    def close(self) -> None:
        self.connection.close()
        self.node.stop()
        super().close()


def _start(**options: Any) -> None:
    """Start a node with these arguments and stop it."""
    directory = options.pop("directory", None)

    async def run() -> None:
        async with box.Node(directory, **{"log_level": 1} | options) as node:
            await node.eval("return 1")

    with tempfile.TemporaryDirectory() as place:
        if isinstance(directory, str) and "\0" not in directory:
            return
        options.setdefault("work_dir", place)
        asyncio.run(run())


class StartWorld(World):
    """Starts, and functions that need no running node."""

    def calls(self) -> Iterator[Call]:
        connect = box.dbapi.connect
        yield Call("connect", lambda **given: connect(**given).close(), {}, {"database": "Any", "autocommit": "bool"})
        for one in (box.Datetime, box.Interval):
            yield call_of(one.__name__, one)
        yield Call("Cluster", box.testing.Cluster, {}, {"size": "int", "synchronous": "bool", "directory": "Any"})
        yield Call("Node", _start, {}, dict.fromkeys(["directory", "logger", *NodeOptions.__annotations__], "Any"))

    def works(self) -> bool:
        return True


# -- judgement

_ABSTRACT: Final = {"Sequence": Sequence, "Mapping": Mapping, "Iterable": Iterable}


def fits(kind: str, value: Any) -> bool:
    """Return False if a value surely has another type than an annotation says."""
    if "Any" in kind or "object" in kind:
        return True
    for part in kind.replace('"', "'").split(" | "):
        name = part.strip("'").partition("[")[0]
        if name == "None":
            found = value is None
        elif name == "int":
            found = isinstance(value, int)
        elif name == "float":
            found = isinstance(value, int | float)
        elif name == "str":
            found = isinstance(value, str)
        elif name == "bool":
            found = isinstance(value, bool) or value is None  # None stands for the default
        elif name == "PathLike":
            found = isinstance(value, PathLike)
        elif name in _ABSTRACT:
            found = isinstance(value, _ABSTRACT[name])
        elif name == "PythonFunction":
            found = callable(value)
        else:
            found = True
        if found:
            return True
    return False


def is_deliberate(error: BaseException) -> bool:
    """Return True if a `raise` statement has raised an exception, False if Python itself did."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
    return line.startswith("raise ")


def problem_of(error: BaseException) -> str | None:
    """Return what is wrong with an exception that a wrong argument has raised, or None."""
    if not (isinstance(error, _ALLOWED) or type(error) in (TypeError, ValueError)):
        return "another exception"
    if not isinstance(error, _ALLOWED) and not is_deliberate(error):
        return "an exception of Python itself"
    text = str(error)
    if len(text) > _LONGEST_TEXT:
        return "a long text"
    if "Traceback" in text or "lupa" in text or "LuaError" in text:
        return "a text that names the machinery"
    return None


class _Late(logging.Handler):
    """Collects what the log tells of exceptions."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or "Traceback" in record.getMessage():
            self.lines.append(f"{record.getMessage()} {record.exc_info}")


def _arguments(call: Call, names: Sequence[str], makers: Sequence[Callable[[], Any]]) -> dict[str, Any]:
    return call.usual | {name: maker() for name, maker in zip(names, makers, strict=True)}


def _cases(
    call: Call, values: Mapping[str, Callable[[], Any]], choice: Choice, count: int
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield names of arguments, and names of the values that replace them. `count` is the number of earlier calls."""
    if choice.seed is None:
        for number, (name, value) in enumerate(itertools.product(call.types, values), count):
            if number % choice.every == 0:
                yield (name,), (value,)
        return
    chooser = random.Random(f"{choice.seed} {call.name}")
    for _ in range(20):
        names = chooser.sample(sorted(call.types), min(2, len(call.types)))
        yield tuple(names), tuple(chooser.choices(sorted(values), k=len(names)))


def walk(report: Report, choice: Choice) -> None:
    """Call the functions, and report finds."""
    late = _Late()
    logging.getLogger().addHandler(late)
    warnings.simplefilter("ignore")
    values = hostile_values(_closed_objects())
    for kind in (AsynchronousWorld, BlockingWorld, StartWorld):
        world = kind()
        try:
            if not world.works():
                report.add(f"{kind.__name__} does not work at all")
            for call in world.calls():
                if choice.takes(call.name):
                    report.functions += 1
                    _walk_one(world, call, values, choice, report)
                    for line in late.lines:
                        report.add(f"{call.name}: a late exception: {line}")
                    late.lines.clear()
        finally:
            world.close()


def _closed_objects() -> list[Any]:
    node = box.sync.Node(log_level=1)
    with node:
        space = node.schema.create_space("goods")
        return [node, space, space.create_index("pk"), node.prepare("SELECT 1"), node.asynchronous]


def _walk_one(
    world: World,
    call: Call,
    values: Mapping[str, Callable[[], Any]],
    choice: Choice,
    report: Report,
) -> None:
    for number, (names, chosen) in enumerate(_cases(call, values, choice, report.seen)):
        given = _arguments(call, names, [values[one] for one in chosen])
        shown = f"{call.name}({', '.join(f'{name}={value}' for name, value in zip(names, chosen, strict=True))})"
        report.calls += 1
        faulthandler.dump_traceback_later(_SECONDS_A_CALL + 30, exit=True)
        is_accepted = False
        try:
            world.settle(call.function(**given))
            is_accepted = True
        except Exception as error:
            problem = problem_of(error)
            if problem is not None:
                report.add(f"{shown}: {problem}: {type(error).__name__}: {error}")
        finally:
            for value in given.values():
                if inspect.iscoroutine(value):
                    value.close()
        if is_accepted:
            wrong = [name for name in names if not fits(call.types[name], given[name])]
            if wrong:
                report.add(f"{shown}: an accepted value for {call.types[wrong[0]]}")
        try:
            if (is_accepted or number % 10 == 9) and not world.works():
                report.add(f"{shown}: the node does not work any more")
        except Exception as error:
            report.add(f"{shown}: the node does not work any more: {type(error).__name__}: {error}")
    report.seen += len(call.types) * len(values)
    faulthandler.cancel_dump_traceback_later()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m test.soak.python_arguments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of names of functions; default: all")
    parser.add_argument("--seed", type=int, help="replace two arguments at once, drawn from this seed")
    parser.add_argument("--every", type=int, default=1, help="take one of so many values; default: 1")
    parser.add_argument("--without-starts", action="store_true", help="start no nodes with wrong options")
    options = parser.parse_args()
    report = Report()
    walk(report, Choice(options.names, options.seed, options.every, options.without_starts))
    print(f"{report.functions} Python functions, {report.calls} calls, {len(report.finds)} finds", flush=True)
    return 1 if report.finds else 0


if __name__ == "__main__":
    sys.exit(main())
