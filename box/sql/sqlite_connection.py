"""A connection to SQLite with our functions, collations and tables. It holds no data.

A running statement has a connection of its own, so that its functions and triggers may run other statements.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import apsw

from box.data.collation import compare_function
from box.errors import ErrorCode, client_error
from box.sql import aggregates, builtins, index_keys, join_keys, number_comparisons, operators
from box.sql.casts import cast, cast_operand, convert, converted
from box.sql.pauses import Pauses
from box.sql.printf_arguments import printf_argument, text_argument
from box.sql.scan_keys import like_column
from box.sql.space_table import LIKE_COLUMN, ScanSource, SpaceCursor, SpaceModule, SpaceTable
from box.sql.stored_values import (
    STORES,
    UINT_MAX,
    NotUtf8,
    Stored,
    Texts,
    Value,
    execute_error,
    load,
    mismatch,
    store,
)
from box.sql.temporary_files import SIZE_MAX, TemporaryFiles
from box.sql.trigger_texts import raise_error

if TYPE_CHECKING:
    from box.index import Index
    from box.schema.space import Space
    from box.session import Context
    from box.sql.automatic_index import AutomaticIndex
    from box.txn.reads import Reader

_MANY_READS: Final = 1500
"""A query without a pause that will read more rows is too long; it finds that out after the first of them."""
_STEPS: Final = 1000
"""After so many steps of its program SQLite asks whether to go on: some tenths of a millisecond of our scans."""


_SETUP: Final = (
    "PRAGMA page_size = 1024; PRAGMA cache_size = -256; ATTACH ':memory:' AS spaces; PRAGMA temp_store = FILE"
)
"""Limits how long SQLite sorts in one step. Its sorter keeps sorted runs in a temporary file, see `temporary_files`. A
run has as many bytes as the cache of `main`, 256 KiB, but at least 250 of its pages: that takes 2 to 3 ms. `main` is
empty; the tables are in `spaces`, whose pages have the usual size.
"""
_USES_FILES: Final = re.compile(r" BY | UNION | EXCEPT | INTERSECT |WITH RECURSIVE ")
"""Matches queries that may sort. What others keep, such as the rows that DISTINCT has seen, stays in the memory of
SQLite, which takes two thirds of the time.
"""


class TooLong(Exception):
    """A query without pauses has taken longer than it may. `is_surely` is False if only the clock says so: the rows may
    be large, or the machine busy.
    """

    def __init__(self, *, is_surely: bool) -> None:
        super().__init__()
        self.is_surely = is_surely


class Environment:
    """The environment of the running statement, for functions and tables."""

    def __init__(
        self,
        ctx: Context,
        reads: Reader,
        *,
        row_count: int = 0,
        is_reversed: bool = False,
        version: str = "",
        random_bytes: Callable[[int], bytes] | None = None,
        call: Callable[[Context, str, list[Value]], Value] | None = None,
        clock: Callable[[], float],
        has_node_ended: Callable[[], bool],
    ) -> None:
        self.ctx = ctx
        self.reads = reads
        self.row_count = row_count
        self.is_reversed = is_reversed
        self.version = version
        self.random_bytes = random_bytes
        self.call = call
        self.clock = clock
        self.has_node_ended = has_node_ended


class _IteratedTuples:
    """A source of the tuples of an iterator."""

    __slots__ = ("_tuples",)

    def __init__(self, tuples: Iterator[bytes]) -> None:
        self._tuples = tuples

    def fetch(self, limit: int) -> list[bytes]:
        """Return up to `limit` tuples; fewer only at the end."""
        return list(islice(self._tuples, limit))


class Connection:
    """A connection to an empty SQLite database; spaces are its virtual tables."""

    def __init__(self, texts: Texts = Texts.UTF8) -> None:
        self.texts = texts
        self._files = TemporaryFiles(self._look)
        self.db = apsw.Connection(":memory:", statementcachesize=200, vfs=self._files.name)
        self.db.execute(_SETUP)
        self._env: Environment | None = None
        self._pauses: Pauses | None = None
        self._has_files = True
        """Whether SQLite keeps what does not fit into its caches in temporary files."""
        self._most_memory = 0
        """Without such files, the bytes that SQLite may take until the statement fails."""
        self.looks_left: int | None = None
        """The number of progress callbacks after which the running statement raises `TooLong`; None for no limit."""
        self.end = 0.0
        """The time in seconds at which a statement with `looks_left` raises `TooLong` in any case."""
        self.being_declared: Space | None = None
        self.may_read_ahead = False
        self.tables: dict[int, SpaceTable] = {}
        """The virtual tables by the id of their space."""
        self.outer: SpaceCursor | None = None
        self.automatic: dict[Any, AutomaticIndex | None] = {}
        """The automatic indexes of the running statement (`SpaceCursor`)."""
        self._outer_reads = 0
        """The reads of all statements when the scan `outer` began."""
        self._declared: dict[int, tuple[Space, Any]] = {}
        self._module = SpaceModule(self)
        add_module: Callable[..., None] = self.db.create_module
        add_module("box", self._module, use_bestindex_object=True, iVersion=2, read_only=True)
        self.db.set_progress_handler(self._on_progress, _STEPS)
        self.db.collation_needed(self._add_collation)
        self._add_functions()

    @property
    def env(self) -> Environment:
        assert self._env is not None
        return self._env

    @property
    def is_reversed(self) -> bool:
        """Return whether the session wants rows backwards if a statement asks for no order."""
        return self.env.is_reversed

    def close(self) -> None:
        """Free what SQLite holds: it would keep this object, whose functions it knows."""
        self.db.close(True)
        self._files.unregister()

    # --- tables ---

    def declare(self, spaces: list[Space]) -> None:
        """Create the virtual tables of these spaces; a table whose definition has changed is created anew."""
        for space in spaces:
            known = self._declared.get(space.id)
            mark = (space.definition, tuple(index.definition for index in space.indexes.values()))
            if known is not None and known[0] is space and known[1] == mark:
                continue
            if known is not None:
                self.db.execute(f"DROP TABLE spaces.t{space.id}")
            self.being_declared = space
            self.db.execute(f"CREATE VIRTUAL TABLE spaces.t{space.id} USING box")
            self.being_declared = None
            self._declared[space.id] = (space, mark)

    def indexes(self, space: Space) -> Mapping[int, Index]:
        """Return the indexes of a space, by id, that the running statement sees."""
        return space.indexes if self._pauses is None else self._pauses.indexes(space)

    def scan(self, owner: Any, space: Space, iid: int, iterator: int, key: list[Any]) -> ScanSource:
        """Begin to read the tuples of an index that the running statement sees; `owner` ends its former scan."""
        if self._pauses is not None:
            return self._pauses.scan(owner, space, iid, iterator, key)
        env = self.env
        if self.looks_left is not None and self._has_tuples(space, iid):
            return env.reads.begin_cursor(env.ctx, space, iid, iterator, key)
        return _IteratedTuples(env.reads.cursor(env.ctx, space, iid, iterator, key))

    def _has_tuples(self, space: Space, iid: int) -> bool:
        """Return True if the entries of an index are what the statement sees. Without a pause nothing changes them."""
        env = self.env
        return env.ctx.txn is None and space.is_plain and not env.reads.txns.storage.holds_versions(space.index(iid))

    def find(self, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """Return the tuple with a full key of a unique index that the running statement sees."""
        if self._pauses is not None:
            return self._pauses.find(space, iid, key)
        env = self.env
        return env.reads.get(env.ctx, space, iid, key)

    # --- counting ---

    @property
    def reads(self) -> int:
        """The number of rows that all statements have read."""
        return sum(table.reads for table in self.tables.values())

    def begin_outer(self, cursor: SpaceCursor) -> None:
        """Note a scan that begins while there is no other."""
        self.outer, self._outer_reads = cursor, self.reads

    def leave_out(self, reads: int) -> None:
        """Take these reads for done once, not again for each row of the outermost loop."""
        self._outer_reads += reads

    def foreseen_reads(self) -> float:
        """Return how many rows the statement will read until its outermost loop ends; 0 if that is not known."""
        return 0.0 if self.outer is None else self.outer.foreseen_reads(self.reads - self._outer_reads)

    # --- running ---

    def begin(self, env: Environment, spaces: list[Space], on_pause: Callable[[], None] | None = None) -> Pauses:
        """Begin a statement with pauses, which reads these spaces; `on_pause` is called before each pause."""
        self._env = env
        self._pauses = Pauses(env.ctx, env.reads, spaces, env.clock, env.has_node_ended, on_pause)
        return self._pauses

    def rows(
        self,
        env: Environment,
        sql: str,
        params: Sequence[Value],
        spaces: list[Space] | None = None,
        on_pause: Callable[[], None] | None = None,
    ) -> apsw.Cursor:
        """Start a query. Returns its rows. One that reads just these spaces may pause, see `begin`.

        Raises:
            BoxError: the query is wrong.
            NotUtf8: a parameter is no UTF-8, and this connection has only texts that are. Rows may raise it, too.
        """
        self._env = env
        if spaces is not None and Pauses.are_possible(env.ctx, env.reads, spaces) and "lb_call(" not in sql:
            self.begin(env, spaces, on_pause)
        # A user's function may change what is read, and reads of a transaction may conflict with writes of others.
        is_watched = env.ctx.txn is not None and env.reads.txns.storage.allows_yield
        self.may_read_ahead = not is_watched and "lb_call(" not in sql
        self.choose_files(_USES_FILES.search(sql) is not None)
        to_stored = STORES[self.texts]
        try:
            return self.db.execute(sql, _named(list(map(to_stored, params))) if params else None)
        except apsw.Error as error:
            raise translated(error) from None

    def choose_files(self, has_files: bool) -> None:
        """Let the following statement have temporary files, or keep all in memory, up to the size of such a file."""
        if has_files is not self._has_files:
            self._has_files = has_files
            self.db.execute("PRAGMA temp_store = FILE" if has_files else "PRAGMA temp_store = MEMORY")
        if not has_files:
            self._most_memory = apsw.memory_used() + SIZE_MAX

    def release(self) -> None:
        """Forget the statement that has ended. Great automatic indexes are freed in many turns."""
        for index in self.automatic.values():
            if index is not None and index.is_great:
                self.env.reads.txns.storage.add_work(index.free_some)
        self.automatic.clear()
        self._env = self.outer = self.looks_left = None
        if self._pauses is not None:
            self._pauses.end()
            self._pauses = None

    def _look(self) -> None:
        """Wait for the next turn if the query may pause and this turn was long enough."""
        if self._pauses is not None:
            self._pauses.look()

    def _on_progress(self) -> bool:
        self.look()
        return False

    def look(self) -> None:
        """Pause, or end the statement, if it is time.

        Raises:
            FullError: the statement takes too much memory.
            TooLong: it has had its time.
        """
        if not self._has_files and apsw.memory_used() > self._most_memory:
            raise apsw.FullError("database or disk is full")
        if self._pauses is not None:
            self._pauses.look()
        elif self.looks_left is not None:
            if not self.looks_left or self.foreseen_reads() > _MANY_READS:
                raise TooLong(is_surely=True)
            if self.env.clock() > self.end:
                raise TooLong(is_surely=False)
            self.looks_left -= 1

    # --- functions ---

    def _add_collation(self, _: apsw.Connection, name: str) -> None:
        self.db.create_collation(name, compare_function(int(name.removeprefix("lb_"))))

    def _add_functions(self) -> None:
        texts = self.texts

        def add(name: str, function: Any, **options: bool) -> None:
            given = function if name in _ANY_TEXTS else _with_texts(texts, function)
            self.db.create_scalar_function(name, given, **options)

        for name, function in (*operators.ARITHMETIC.values(), *operators.COMPARISONS.values()):
            add(name, function, deterministic=True)
        for name, plain in _PLAIN_FUNCTIONS.items():
            add(name, plain, deterministic=True)
        for entry in builtins.SCALARS.values():
            add(f"lb_{entry.name.lower()}", _on_values(entry.call), deterministic=True)
        add("lb_row_count", lambda: self.env.row_count)
        add("lb_version", lambda: self.env.version)
        add("lb_raise", raise_error)
        add("lb_second_row", _second_row)
        add("lb_wrong_count", _wrong_count)
        add("lb_next", itertools.count().__next__)
        add("lb_call", self._call)
        add("lb_randomblob", self._randomblob)
        for name, (factory, count) in _AGGREGATES.items():
            self.db.create_aggregate_function(name, partial(_guarded, factory, texts), count)
        for name, factory in aggregates.SAFE.items():
            self.db.create_aggregate_function(name, factory, 1)

    def _call(self, name: Stored, *args: Any) -> Stored:
        """Call a function of `_func`."""
        env = self.env
        assert env.call is not None
        return store(env.call(env.ctx, load(name).decode(), [load(arg) for arg in args]))

    def _randomblob(self, count: Any) -> Stored:
        value = load(count)
        if type(value) is bytes:
            raise mismatch(value, "numeric")
        size = builtins.as_integer(value)
        if count is None or size < 1:
            return None
        if size > builtins.SIZE_MAX:
            raise execute_error("string or blob too big")
        assert self.env.random_bytes is not None
        return store(self.env.random_bytes(size))


def _guarded(factory: Callable[[], Any], texts: Texts) -> aggregates.Guarded:
    inner = factory()
    return aggregates.Guarded(inner.step, _with_texts(texts, inner.final))


def _with_texts(texts: Texts, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function on stored values whose results suit a connection with such texts."""
    if texts is Texts.UTF8:
        return function
    to_stored = STORES[texts]

    def apply(*args: Any) -> Stored:
        try:
            found = function(*args)
        except NotUtf8 as error:
            return error.stored
        return to_stored(found) if type(found) is str else found

    return apply


def _on_values(function: Callable[..., Value]) -> Callable[..., Stored]:
    """Return a function on stored values that calls a function on Python values."""

    def apply(*args: Any) -> Stored:
        return store(function(*map(load, args)))

    return apply


def _like(collation: int, pattern: Any, text: Any, *escape: Any) -> int | None:
    found = builtins.like(
        collation, load(pattern), load(text), *map(load, escape), **({"has_escape": True} if escape else {})
    )
    return None if found is None else int(found)


def _trim(text: Any, side: str, *chars: Any) -> Stored:
    if not chars:
        return store(builtins.trim(load(text), side))
    return store(builtins.trim(load(text), side, load(chars[0]), True))


def _second_row() -> None:
    raise execute_error("Expression subquery returned more than 1 row")


def _wrong_count(name: str, expected: str, count: int) -> None:
    raise client_error(ErrorCode.FUNC_WRONG_ARG_COUNT, name, expected, count)


def _limit(stored: Any, clause: str) -> int:
    # Far beyond any number of rows, and SQLite can still add an offset to it.
    return min(_count_of_rows(stored, clause), 2**62)


def _offset(limit: Any, stored: Any) -> int:
    """Return the value of an OFFSET.

    Raises:
        ClientError: SQL_EXECUTE, it is no such number, or more than 64 bits with the LIMIT.
    """
    offset = _count_of_rows(stored, "OFFSET")
    if offset + _count_of_rows(limit, "LIMIT") > UINT_MAX:
        raise execute_error("sum of LIMIT and OFFSET values should not result in integer overflow")
    return min(offset, 2**62)


def _count_of_rows(stored: Any, clause: str) -> int:
    value = load(stored)
    if type(value) is str:
        from box.sql.casts import text_to_integer

        value = text_to_integer(value)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        raise execute_error(f"Only positive integers are allowed in the {clause.replace('SINGLE', 'LIMIT')} clause")
    if clause == "SINGLE" and value > 1:
        raise execute_error("Expression subquery could be limited only with 1")
    return value


def _named(params: list[Stored]) -> dict[str, Stored]:
    """Name the parameters `p1`, `p2`, ...: a query need not use all of them."""
    return {f"p{number}": value for number, value in enumerate(params, 1)}


_ANY_TEXTS: Final = frozenset(("lb_rank", "lb_great", "lb_plain", "lb_printf"))
"""Functions whose texts are no values, but ranks, or arguments for a function of SQLite."""
_PLAIN_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lb_bool": operators.boolean,
    "lb_truth": operators.truth,
    "lb_refused_key": index_keys.refused_key,
    "lb_refused_bound": index_keys.refused_bound,
    "lb_join_key": join_keys.join_key,
    "lb_join_bound": join_keys.join_bound,
    "lb_are_keys": join_keys.are_keys,
    "lb_item_key": join_keys.item_key,
    "lb_refused_keys": index_keys.refused_keys,
    "lb_number_keys": index_keys.number_keys,
    "lb_scalar": index_keys.compare_scalars,
    "lb_scalar_in": index_keys.is_scalar_in,
    "lb_wrong_key": index_keys.wrong_key,
    "lb_chosen": lambda is_greatest, collation, *args: builtins.chosen(is_greatest, collation, *map(load, args)),
    "lb_as_whole": number_comparisons.as_whole,
    "lb_as_double": number_comparisons.as_double,
    "lb_neg": operators.negate,
    "lb_not": operators.bit_not,
    "lb_rank": operators.sort_rank,
    "lb_cast": lambda stored, type_name: store(cast(load(stored), type_name)),
    "lb_cast0": lambda stored, type_name: store(cast_operand(load(stored), type_name)),
    "lb_unsuited": aggregates.unsuited_aggregate,
    "lb_great": operators.great_key,
    "lb_either": operators.either,
    "lb_both": operators.both,
    "lb_like": _like,
    LIKE_COLUMN: like_column,
    "lb_text": lambda text: text,
    "lb_applied": lambda stored, type_name: store(convert(load(stored), type_name)),
    "lb_converted": lambda stored, type_name: store(converted(load(stored), type_name)),
    "lb_in": operators.is_in,
    "lb_in_set": operators.is_in_set,
    "lb_trim": _trim,
    "lb_plain": lambda stored: text_argument(load(stored)),
    "lb_printf": printf_argument,
    "lb_limit": _limit,
    "lb_rem0": operators.exact_remainder,
    "lb_offset": _offset,
}
_AGGREGATES: dict[str, tuple[Callable[[], Any], int]] = {
    "lb_sum": (aggregates.Sum, 1),
    "lb_avg": (aggregates.Average, 1),
    "lb_total": (aggregates.Total, 1),
    "lb_group_concat": (aggregates.GroupConcat, -1),
    "lb_min": (aggregates.Minimum, 2),
    "lb_max": (aggregates.Maximum, 2),
    "lb_at_min": (aggregates.AtMinimum, 3),
    "lb_at_max": (aggregates.AtMaximum, 3),
}


def translated(error: apsw.Error) -> Exception:
    """Make the error of a statement from one of SQLite that the analysis should have prevented."""
    return execute_error(str(error).removeprefix("SQLError: "))
