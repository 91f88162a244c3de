"""Runs queries. Each text is analysed once for each combination of parameter types."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import apsw

from box.apart import run_apart
from box.data.collation import name_of
from box.errors import BoxError
from box.index.untracked import untrack, untracked_list
from box.schema.access import Privilege
from box.sql import sql_nodes
from box.sql.aggregates import UnsuitedAggregate
from box.sql.catalogue import Catalogue
from box.sql.copies import Copies, CopiesWanted
from box.sql.kinds import RAW_TEXT, parameter_type
from box.sql.params import kinds
from box.sql.pauses import Pauses
from box.sql.query import Query, QueryCompiler
from box.sql.result import ResultField, ResultFields, Rows, field_of
from box.sql.sqlite_connection import Connection, Environment, TooLong, translated
from box.sql.stored_values import NotUtf8, Texts, Value, load, load_boolean
from box.sql.table_reads import TableRead, table_read
from box.sql.user_functions import UserFunctions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.session import Context
    from box.txn.dml import Dml

_T = TypeVar("_T")

ROW_COUNT: Final = "sql_row_count"
"""The key in `Session.storage` of the value of ROW_COUNT()."""
_CALL: Final = "lb_call("
"""The text by which a compiled query calls a function of a user."""
_COLLATE: Final = " COLLATE lb_"
"""The text by which a compiled query names a collation other than those of bytes."""
_ORDERED: Final = ("lb_call(", "lb_group_concat(", "lb_last(", "lb_at_")
"""Functions that show the order of a scan, or may change what is read."""
_SMALL: Final = 300
"""A query that looks at fewer combinations of rows takes about a millisecond."""
_LOOKS: Final = 8
"""Thousands of SQLite's steps that a query without a pause may take: two or three milliseconds."""
_SECONDS: Final = 0.003
"""Seconds that a query without a pause may take, because a single step may read a row of a megabyte."""
_SHARE: Final = 4
"""Copies of spaces take at most this part of `memtx_memory`."""
_UNTRACKED: Final = 1000
"""The number of rows that are hidden from the garbage collector at once, before it visits them: while a query runs,
100,000 of them would cost turns of more than ten milliseconds.
"""
_EXAMPLES: Final[dict[type, Value]] = {int: 1, float: 1.0, str: "", bytes: b""}
"""Values that stand for all parameters of their types in the analysis, so that no large one is kept."""
_CACHED: Final = 1000
"""The number of analysed statements that are kept."""

_QUICK: Final = (
    (
        re.compile(r"lb_sum_int\((s[0-9]+\.c[0-9]+)\)"),
        r"(CASE WHEN typeof(max(\1)) = 'blob' THEN lb_unsuited() ELSE sum(\1) END)",
    ),
    (
        re.compile(r"lb_(min|max)\((s[0-9]+\.c[0-9]+), 0\)"),
        r"(CASE WHEN typeof(max(\2)) IN ('integer', 'real', 'null') THEN \1(\2) ELSE lb_unsuited() END)",
    ),
)
"""Calls of own aggregate functions, and what does the same by SQLite's functions while all values of the column are
numbers that SQLite knows: neither integers of 2^63 and more, which are BLOBs, nor values of other types. Of all types,
numbers come first in SQLite's order.
"""


class Compiled:
    """An analysed query."""

    __slots__ = (
        "allows_copies",
        "booleans",
        "fields",
        "is_long",
        "loaders",
        "places",
        "quick_sql",
        "raw",
        "scans",
        "sql",
        "tables",
        "texts",
        "used",
    )

    def __init__(
        self, sql: str, booleans: list[bool], fields: ResultFields, used: list[Space], *, allows_copies: bool
    ) -> None:
        self.sql = sql
        self.quick_sql = sql
        """The query as it runs on copies; `sql` takes its place once SQLite's functions do not suit its values."""
        for call, quick in _QUICK:
            self.quick_sql = call.sub(quick, self.quick_sql)
        self.allows_copies = allows_copies and not any(name in sql for name in _ORDERED)
        self.booleans = booleans
        self.loaders = [load_boolean if is_boolean else load for is_boolean in booleans]
        """What makes values of those of SQLite, for each column."""
        self.places: tuple[int, ...] | None = None
        """The places of the parameters that SQLite asks for, in the order in which it numbers them; known once
        `RowExpressions` has run the query.
        """
        self.fields = fields
        self.used = used
        self.tables = [space for space in used if not space.definition.opts.view]
        self.scans = sql.count(" AS s")
        self.texts = Texts.MIXED if _CALL in sql else Texts.UTF8
        """The texts of the connection that it needs."""
        self.raw: Compiled | Callable[[], Compiled] | None = None
        """The query for texts that are not UTF-8, or what makes it; None if it is this one."""
        self.is_long = False
        """True once it has taken too long to run without a pause."""

    def check_rights(self, ctx: Context) -> None:
        """Check that the user may read its tables.

        Raises:
            AccessDeniedError: the user may not.
        """
        for space in self.used:
            space.check_access(ctx.credentials, Privilege.R)

    @property
    def is_surely_short(self) -> bool:
        """True if its tables are so small that it cannot be long, and no function in it may wait."""
        if "WITH RECURSIVE " in self.sql or _CALL in self.sql:
            return False
        most = max((len(space.primary) if space.primary else 0 for space in self.tables if space.is_plain), default=0)
        return bool((most + 1) ** self.scans < _SMALL)


class QueryRunner:
    """Runs the queries of one node."""

    def __init__(
        self,
        schema: Schema,
        dml: Dml,
        *,
        version: str,
        random_bytes: Callable[[int], bytes],
        clock: Callable[[], float],
        has_node_ended: Callable[[], bool],
    ) -> None:
        self.schema = schema
        self._dml = dml
        self._version = version
        self._random_bytes = random_bytes
        self._clock = clock
        self._has_node_ended = has_node_ended
        self._functions = UserFunctions(schema)
        self._free: dict[Texts, list[Connection]] = {texts: [] for texts in Texts}
        self._copies = Copies(lambda: dml.memory_limit // _SHARE)
        schema.on_alter_spaces.append(self._copies.on_alter_spaces)
        self._compiled: dict[Any, Compiled] = {}

    def end(self) -> None:
        """Keep nothing that refers to the indexes of spaces: the node has ended."""
        self._copies.end()
        for free in self._free.values():
            while free:
                free.pop().close()

    # --- analysis ---

    def compiler(self, ctx: Context, params: Sequence[Value], texts: Texts = Texts.UTF8) -> QueryCompiler:
        """Return a compiler for a user's query with these values of parameters, for a connection with such texts."""
        return QueryCompiler(Catalogue(self.schema), params, texts)

    def compiled(
        self, ctx: Context, key: Any, make: Callable[[QueryCompiler], Query], params: Sequence[Value]
    ) -> Compiled:
        """Return the analysed query with this key; `make` compiles it the first time. Rights are checked when it runs.

        Raises:
            ClientError: the query is wrong.
        """
        settings = self.schema.session_settings
        full_names = bool(settings.value(ctx.session, "sql_full_column_names"))
        whole = (key, self.schema.version, kinds(params), full_names)
        found = self._compiled.get(whole)
        if found is None:
            examples = [_EXAMPLES.get(type(value), value) for value in params]

            def made(texts: Texts) -> Compiled:
                compiler = self.compiler(ctx, examples, texts)
                compiler.has_full_names = full_names
                compiler.names_after_merging = True
                return self.finish(compiler, make(compiler))

            found = made(Texts.UTF8)
            if found.texts is Texts.UTF8:
                found.raw = lambda: _for_raw_texts(found, made)
                if RAW_TEXT in found.sql:
                    found.raw = found.raw()
            if len(self._compiled) >= _CACHED:
                self._compiled.clear()
            self._compiled[whole] = found
        return found

    def finish(self, compiler: QueryCompiler, query: Query) -> Compiled:
        """Make a compiled query ready to run."""
        used = compiler.catalogue.used
        fields = []
        spans = query.spans or [None] * len(query.columns)  # type: ignore[list-item]
        for column, span in zip(query.columns, spans, strict=True):
            collation = name_of(column.collation) if column.collation > 0 and column.shows_collation else None
            fields.append(field_of(column, span, collation))
        booleans = [column.kind == "bool" for column in query.columns]
        allows_copies = compiler.allows_copies
        return Compiled(query.sql, booleans, ResultFields(fields), list(used.values()), allows_copies=allows_copies)

    # --- running ---

    def environment(self, ctx: Context) -> Environment:
        """Return the environment of a statement: what SQL functions and tables may ask about it."""
        return Environment(
            ctx,
            self._dml.sql_reads,
            row_count=ctx.session.storage.get(ROW_COUNT, 0),
            is_reversed=bool(self.schema.session_settings.value(ctx.session, "sql_reverse_unordered_selects")),
            version=self._version,
            random_bytes=self._random_bytes,
            call=self._functions.call,
            clock=self._clock,
            has_node_ended=self._has_node_ended,
        )

    @contextmanager
    def connection(self, texts: Texts = Texts.UTF8) -> Iterator[Connection]:
        """Lend a connection to SQLite for one statement."""
        free = self._free[texts]
        connection = free.pop() if free else Connection(texts)
        try:
            yield connection
        finally:
            connection.release()
            free.append(connection)

    def fetch(
        self, ctx: Context, compiled: Compiled, params: Sequence[Value], *, may_pause: bool = False
    ) -> list[list[Value]]:
        """Return all rows of a query. With `may_pause`, and inside of `run_apart`, it waits now and then."""
        compiled.check_rights(ctx)

        def run(query: Compiled) -> list[list[Value]]:
            with self.connection(query.texts) as connection:
                connection.declare(query.tables)
                env, pausing = self.environment(ctx), query.tables if may_pause else None
                with _translating():
                    return _loaded(query, connection.rows(env, query.sql, params, pausing))

        return _with_any_texts(compiled, run)

    def fetch_long(self, ctx: Context, compiled: Compiled, params: Sequence[Value]) -> list[list[Value]]:
        """Return all rows of a query that may take long, inside of `run_apart`; it may run on copies of its spaces."""
        if not isinstance(compiled.raw, Compiled):
            try:
                return self._fetch_on_copies(ctx, compiled, params)
            except NotUtf8:
                pass
        return self.fetch(ctx, compiled, params, may_pause=True)

    def _fetch_on_copies(self, ctx: Context, compiled: Compiled, params: Sequence[Value]) -> list[list[Value]]:
        compiled.check_rights(ctx)
        env, spaces, copies = self.environment(ctx), compiled.tables, self._copies
        may_pause = Pauses.are_possible(ctx, env.reads, spaces)
        if not (compiled.allows_copies and may_pause and copies.suit(env, spaces, params)):
            return self.fetch(ctx, compiled, params, may_pause=True)
        if not copies.are_worthwhile(spaces):
            try:
                return self._fetch_counted(env, compiled, params)
            except CopiesWanted:
                if not copies.suit(env, spaces, params):  # something has changed in a pause
                    return self.fetch(ctx, compiled, params, may_pause=True)
        with copies.lend(env, spaces) as connection, _translating():
            try:
                return _loaded(compiled, connection.rows(env, compiled.quick_sql, params))
            except (UnsuitedAggregate, apsw.SQLError, BoxError) as error:
                is_unsuited = isinstance(error, UnsuitedAggregate) or str(error).endswith("integer overflow")
                if compiled.quick_sql == compiled.sql or not is_unsuited:
                    raise
                compiled.quick_sql = compiled.sql
            return _loaded(compiled, connection.rows(env, compiled.sql, params))

    def _fetch_counted(self, env: Environment, compiled: Compiled, params: Sequence[Value]) -> list[list[Value]]:
        """Run a query on its spaces, and count the rows that it reads.

        Raises:
            CopiesWanted: it has read, or will read, many.
        """
        spaces, copies = compiled.tables, self._copies
        with self.connection() as connection:
            connection.declare(spaces)
            before = [connection.tables[space.id].reads for space in spaces]

            def counts() -> list[int]:
                now = [connection.tables[space.id].reads for space in spaces]
                return [second - first for first, second in zip(before, now, strict=True)]

            def on_pause() -> None:
                if copies.are_worthwhile(spaces, sum(counts()), connection.foreseen_reads()):
                    raise CopiesWanted

            try:
                with _translating():
                    return _loaded(compiled, connection.rows(env, compiled.sql, params, spaces, on_pause))
            finally:
                for space, count in zip(spaces, counts(), strict=True):
                    copies.note(space, count)

    async def rows(self, ctx: Context, compiled: Compiled, params: Sequence[Value]) -> list[list[Value]]:
        """Return all rows of a query that is part of a change. Only a function in it may wait."""
        if _CALL not in compiled.sql:
            return self.fetch(ctx, compiled, params)
        return await run_apart(lambda: self.fetch(ctx, compiled, params))

    def plain_rows(self, ctx: Context, compiled: Compiled, sql: str, params: Sequence[Value]) -> list[list[Any]]:
        """Return SQLite's own rows for a statement about the tables of a query, such as EXPLAIN."""
        with self.connection(Texts.MIXED) as connection:
            connection.declare(compiled.tables)
            return [list(row) for row in connection.rows(self.environment(ctx), sql, params)]

    def has_full_metadata(self, ctx: Context) -> bool:
        """Return whether the session wants complete metadata."""
        return bool(self.schema.session_settings.value(ctx.session, "sql_full_metadata"))

    def analyse(
        self, ctx: Context, key: Hashable, select: sql_nodes.Select, params: Sequence[Value]
    ) -> list[ResultField]:
        """Return the result columns that a query of a user would have."""
        return self.compiled(ctx, key, lambda compiler: compiler.compile(select), params).fields

    async def select(self, ctx: Context, key: Hashable, select: sql_nodes.Select, params: Sequence[Value]) -> Rows:
        """Run a query of a user."""
        compiled = self.compiled(ctx, key, lambda compiler: compiler.compile(select), params)
        compiled.check_rights(ctx)
        fields, read = _with_parameter_types(select, compiled.fields, params), self._table_read(ctx, compiled, select)
        rows = None if read is None else read.at_once(ctx, self._dml.sql_reads)
        if rows is None and read is not None:
            rows = await run_apart(lambda: self._read_by_turns(ctx, read))
        elif rows is None and compiled.is_surely_short:
            rows = self.fetch(ctx, compiled, params)
        elif rows is None:
            rows = await run_apart(lambda: self.fetch_long(ctx, compiled, params))
        return Rows(fields, rows, self.has_full_metadata(ctx))

    def _table_read(self, ctx: Context, compiled: Compiled, select: sql_nodes.Select) -> TableRead | None:
        """Return how to run a query of a whole table without SQLite; None for other queries and in a transaction."""
        if compiled.scans != 1 or len(compiled.tables) != 1 or len(compiled.used) != 1 or ctx.txn is not None:
            return None
        is_reversed = self.schema.session_settings.value(ctx.session, "sql_reverse_unordered_selects")
        return None if is_reversed else table_read(select, compiled.tables[0])

    def _read_by_turns(self, ctx: Context, read: TableRead) -> list[list[Value]]:
        pauses = Pauses(ctx, self._dml.sql_reads, [read.space], self._clock, self._has_node_ended)
        try:
            return read.by_turns(pauses)
        finally:
            pauses.end()

    def select_at_once(
        self, ctx: Context, key: Hashable, select: sql_nodes.Select, params: Sequence[Value]
    ) -> Rows | None:
        """Run a query of a user without a pause. Returns None if it calls functions of the user, or is long.

        Steps of SQLite tell what is long for good; the clock only ends this attempt, because the machine may be busy.
        """
        compiled = self.compiled(ctx, key, lambda compiler: compiler.compile(select), params)
        if compiled.is_long or _CALL in compiled.sql:
            return None
        compiled.check_rights(ctx)
        fields, read = _with_parameter_types(select, compiled.fields, params), self._table_read(ctx, compiled, select)
        if read is not None:
            whole = read.at_once(ctx, self._dml.sql_reads)
            return None if whole is None else Rows(fields, whole, self.has_full_metadata(ctx))

        def run(query: Compiled) -> list[list[Value]] | None:
            with self.connection(query.texts) as connection:
                connection.declare(query.tables)
                connection.looks_left, connection.end = _LOOKS, self._clock() + _SECONDS
                try:
                    with _translating():
                        return _loaded(query, connection.rows(self.environment(ctx), query.sql, params))
                except TooLong as error:
                    compiled.is_long = error.is_surely
                    return None

        rows = _with_any_texts(compiled, run)
        return None if rows is None else Rows(fields, rows, self.has_full_metadata(ctx))


def _for_raw_texts(compiled: Compiled, make: Callable[[Texts], Compiled]) -> Compiled:
    """Return an analysed query as it runs with texts that are not UTF-8."""
    texts = Texts.MIXED if _COLLATE in compiled.sql else Texts.BYTES
    found = make(texts)
    found.texts = texts
    return found


def _with_any_texts(compiled: Compiled, run: Callable[[Compiled], _T]) -> _T:
    """Run a query. If it meets a text that is not UTF-8, run what does the same for such texts, and from then on always
    that.
    """
    if not isinstance(compiled.raw, Compiled):
        try:
            return run(compiled)
        except NotUtf8:
            assert compiled.raw is not None
            compiled.raw = compiled.raw()
    return run(compiled.raw)


@contextmanager
def _translating() -> Iterator[None]:
    """Raise errors of SQLite as errors of a statement."""
    try:
        yield
    except apsw.Error as error:
        raise translated(error) from None


def _loaded(compiled: Compiled, cursor: apsw.Cursor) -> list[list[Value]]:
    """Return the rows of a query."""
    loaders, is_plain = compiled.loaders, not any(compiled.booleans)
    found: list[list[Value]] = untracked_list()
    try:
        for row in cursor:
            if is_plain and bytes not in map(type, row):
                found.append(list(row))
            else:
                found.append([loader(item) for loader, item in zip(loaders, row, strict=True)])
            if not len(found) % _UNTRACKED:
                untrack(found[-_UNTRACKED:])
    finally:
        cursor.close(True)
    return found


def _with_parameter_types(select: sql_nodes.Select, fields: ResultFields, params: Sequence[Value]) -> ResultFields:
    """Give types to the result columns that are nothing but a parameter.

    Like Tarantool, the n-th such column gets the type of the n-th value, whichever parameter it is.
    """
    core = select.cores[0]
    columns = core.columns if core.values is None else core.values[0]
    places = [place for place, column in enumerate(columns) if isinstance(column.expr, sql_nodes.Param)]
    if not places or len(fields) != len(columns):
        return fields
    found = ResultFields(fields)
    for place, value in zip(places, params, strict=False):
        old = found[place]
        found[place] = ResultField(old.name, parameter_type(value), old.span)
    return found
