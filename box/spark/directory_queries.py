"""Queries of Spark's SQL over a directory: its spaces are views of their names."""

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
"""Classes of statements that are no queries."""


class Failed(Exception):
    """Spark's reason why a query has no rows."""


@contextmanager
def run_query(
    directory: str, statement: str, *, master: str, log: str | None = None, skips_corrupt: bool = False
) -> Iterator[tuple[list[tuple[str, bool]], Iterator[tuple[Any, ...]]]]:
    """Run a query. Gives the columns, each with whether it has numbers, and the rows one by one.

    The data is that of the newest snapshot and the log behind it. Names are those of the spaces; upper and lower case
    differ only if spaces differ in nothing else.

    Raises:
        BoxError: the directory cannot be read; UNSUPPORTED, the statement is no query.
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
            # A view opens its files, so that only those are made that the text may name.
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
        BoxError: UNSUPPORTED, it is no query.
    """
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    find_class = spark.sparkContext._jvm.java.lang.Class.forName
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if any(find_class(name, False, loader).isInstance(plan) for name in _CHANGES):
        raise illegal_params("--master runs queries: this statement is none")
