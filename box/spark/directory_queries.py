"""Queries of Spark's SQL over a directory; each space is a view with the space's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from box.errors import illegal_params
from box.spark.definitions import USER_SPACES
from box.spark.sessions import first_line, spark_session
from box.spark.source_options import SourceOptions
from box.spark.table import spaces_of

_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical"
_CHANGES: Final = (f"{_PLANS}.Command", f"{_PLANS}.InsertIntoStatement")
"""Spark's classes of statements that are not queries."""


class Failed(Exception):
    """Raised if a query fails; the text is Spark's reason."""


@contextmanager
def run_query(
    directory: str, statement: str, *, master: str, log: str | None = None, skips_corrupt: bool = False
) -> Iterator[tuple[list[tuple[str, bool]], Iterator[tuple[Any, ...]]]]:
    """Run a query. Returns the columns (each with whether it has numbers), and an iterator of rows.

    The data is that of the newest snapshot and the log after it. Names are those of the spaces; upper and lower case
    differ only if two space names differ in nothing else.

    Raises:
        BoxError: the directory cannot be read; UNSUPPORTED, the statement is not a query.
        Failed: Spark cannot run it.
    """
    options = {"path": directory, "as_of": "latest", "onCorrupt": "skip" if skips_corrupt else "fail"}
    options |= {} if log is None else {"log": log}
    names = [
        space.name
        for space in spaces_of(SourceOptions.of(options | {"space": "any"}))
        if space.id >= USER_SPACES and space.primary is not None
    ]
    spark, is_own = spark_session("lunabox sql", master, _settings(names))
    try:
        _check_query(spark, statement)
        folded = statement.lower()
        for name in names:
            # Creating a view opens files, so only spaces whose name may be in the text get one.
            if name.lower() in folded:
                quoted = name.replace("`", "``")
                frame = spark.read.format("box").options(**options, space=name).load()
                frame.createOrReplaceTempView(f"`{quoted}`")
        found = spark.sql(statement)
        columns = [(name, kind.startswith(_NUMBERS)) for name, kind in found.dtypes]
        yield columns, map(tuple, found.toLocalIterator())
    except Exception as error:
        if type(error).__module__.startswith(("pyspark", "py4j")):
            raise Failed(first_line(error)) from None
        raise
    finally:
        if is_own:
            spark.stop()


def _settings(names: list[str]) -> dict[str, str]:
    is_ambiguous = len({name.lower() for name in names}) < len(names)
    return {"spark.sql.caseSensitive": "true"} if is_ambiguous else {}


def _check_query(spark: Any, statement: str) -> None:
    """Check that a statement changes nothing.

    Raises:
        BoxError: UNSUPPORTED, the statement is not a query.
    """
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    find_class = spark.sparkContext._jvm.java.lang.Class.forName
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if any(find_class(name, False, loader).isInstance(plan) for name in _CHANGES):
        raise illegal_params("--master runs queries: this statement is none")
