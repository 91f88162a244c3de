"""`lunabox-export`: spaces of a directory written by Spark as Parquet, CSV, JSON or ORC."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from box.errors import BoxError
from box.spark.export_options import ExportPlan, check_columns, exported_spaces, names_of, plan_of
from box.spark.progress import Progress

_NOT_INSTALLED = "Spark is not installed: pip install 'lunabox[spark]'"


def _session(master: str) -> tuple[Any, bool]:
    """A Spark session, and whether it was made here."""
    from pyspark.sql import SparkSession

    from box.spark.source import BoxDataSource

    # Spark's workers are Python processes; without this they would be whatever python3 comes first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found = SparkSession.getActiveSession()
    spark = (
        SparkSession.builder.master(master)
        .appName("lunabox-export")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark.dataSource.register(BoxDataSource)
    return spark, found is None


def export(plan: ExportPlan, spaces: Sequence[str]) -> None:
    """Write the spaces; one line on standard output for each."""
    spark, is_own = _session(plan.args.master)
    try:
        for space in spaces:
            output = str(plan.output) if plan.space is not None else f"{plan.output}/{space}"
            begun = time.monotonic()
            count = _write(spark, plan, space, output)
            seconds = max(time.monotonic() - begun, 0.001)
            print(f"{count} rows of space {space} written to {output} ({seconds:.1f} s)")
    finally:
        if is_own:
            spark.stop()


def _write(spark: Any, plan: ExportPlan, space: str, output: str) -> int:
    """Write one space; returns the number of rows."""
    from pyspark.sql import Observation, functions

    args = plan.args
    frame = spark.read.format("box").options(**plan.options(space)).load()
    if args.where is not None:
        frame = frame.where(args.where)
        if args.columns is not None:
            frame = frame.select(*[functions.col(f"`{name}`") for name in names_of(args.columns)])
    counted = Observation("export")
    frame = frame.observe(counted, functions.count(functions.lit(1)).alias("rows"))
    writer = frame.write.mode("overwrite" if args.overwrite else "errorifexists")
    if args.to == "csv":
        writer = writer.option("header", "true")
    if args.compression is not None:
        writer = writer.option("compression", args.compression)
    if args.partition_by is not None:
        writer = writer.partitionBy(*names_of(args.partition_by))
    with Progress(spark, space, is_shown=args.progress or sys.stderr.isatty()):
        writer.format(args.to).save(output)
    return int(counted.get["rows"])


def dry_run(plan: ExportPlan, spaces: Sequence[str]) -> None:
    """Print schema, rows and size of the spaces, without Spark."""
    from box.spark.source_options import SourceOptions
    from box.spark.table import Table

    for space in spaces:
        table = Table.open(SourceOptions.of(plan.options(space)))
        for source in table.sources:
            print(f"space {space} in {source.path}, {source.size} bytes of files")
        for column in table.columns:
            print(f"  {column.name}: {column.type}{'' if column.is_nullable else ' not null'}")
        print(f"  {table.count()} rows")


def _check(plan: ExportPlan, spaces: Sequence[str]) -> None:
    """Find what is wrong with the input before a Java virtual machine is started."""
    from box.spark.source_options import SourceOptions
    from box.spark.table import Table

    for space in spaces:
        options = {name: value for name, value in plan.options(space).items() if name != "columns"}
        check_columns(plan, [column.name for column in Table.open(SourceOptions.of(options)).columns])


def _first_line(error: Exception) -> str:
    """The text of a Spark error without the Java stack behind it."""
    text = str(error).strip()
    marked = next((line for line in text.splitlines() if "box: " in line), None)
    return text.splitlines()[0] if marked is None and text else (marked or repr(error)).strip()


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with the error on standard error."""
    plan = plan_of(argv)
    try:
        spaces = exported_spaces(plan)
        _check(plan, spaces)
        if plan.args.dry_run:
            dry_run(plan, spaces)
        else:
            export(plan, spaces)
    except BoxError as error:
        print(f"lunabox-export: {error}", file=sys.stderr)
    except ImportError:
        print(f"lunabox-export: {_NOT_INSTALLED}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # Spark wraps every failure in classes of its own; the user needs the text.
        print(f"lunabox-export: {_first_line(error)}", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
