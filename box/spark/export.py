"""The command `lunabox-export`: writes spaces with Spark as Parquet, CSV, JSON and other formats, and the report."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from box.errors import BoxError, illegal_params
from box.spark.export_options import ExportJob, check_columns, exported_spaces, job_of, names_of
from box.spark.progress import Progress
from box.spark.safe_output import check_output, check_page
from box.spark.sessions import first_line, spark_session
from box.spark.skips import SkipCount
from box.spark.table_formats import PACKAGES, is_installed, make_table


class _TableFormat(NamedTuple):
    """A table format that Spark gets from a package: the package's coordinates, a class in it, and the necessary
    settings."""

    artifact: str
    class_name: str
    settings: dict[str, str]


_TABLE_FORMATS = {
    "delta": _TableFormat(
        "io.delta:delta-spark_<Spark's version>_2.13:<version>",
        "io.delta.sql.DeltaSparkSessionExtension",
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
    ),
    "iceberg": _TableFormat(
        "org.apache.iceberg:iceberg-spark-runtime-<Spark's version>_2.13:<version>",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
    ),
}


def _session(args: argparse.Namespace) -> tuple[Any, bool]:
    """Return a Spark session, and whether it was created here."""
    settings = dict(args.conf or ())
    if args.to in _TABLE_FORMATS and _is_among(settings, args.to):
        settings = _TABLE_FORMATS[args.to].settings | settings
    return spark_session("lunabox-export", args.master, settings)


def _is_among(settings: dict[str, str], name: str) -> bool:
    """Return whether the settings seem to name the jars of a format. Without these jars Spark would not start."""
    jars = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
    return any(name in settings.get(key, "").lower() for key in jars)


def _check_package(spark: Any, kind: str) -> None:
    """Check that Spark has the package of a table format.

    Raises:
        BoxError: ILLEGAL_PARAMS, it does not.
    """
    if kind not in _TABLE_FORMATS:
        return
    try:
        loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.loadClass(_TABLE_FORMATS[kind].class_name)
    except Exception:  # py4j's error, with the Java stack
        raise illegal_params(
            f"--to {kind} needs the package {PACKAGES[kind]} (pip install '.[{kind}]' in a clone of Lunabox); "
            f"with --where, --partition-by or another store it needs that of {kind} for Spark, named with "
            f"--conf spark.jars.packages={_TABLE_FORMATS[kind].artifact} or --conf spark.jars=FILE"
        ) from None


def export(job: ExportJob, spaces: Sequence[str]) -> None:
    """Write the spaces, and print one line on standard output for each, after one for the start of Spark."""
    begun = time.monotonic()
    spark, is_own = _session(job.args)
    if is_own:
        print(f"Java and Spark started ({time.monotonic() - begun:.1f} s)", flush=True)
    try:
        if not _is_direct(job.args, str(job.output)):
            _check_package(spark, job.args.to)
        for space in spaces:
            output = _output_of(job, space)
            begun = time.monotonic()
            skips = SkipCount()
            count = _write(spark, job, space, output, skips)
            seconds = max(time.monotonic() - begun, 0.001)  # not zero, because the speed is divided by it
            speed = f"{seconds:.1f} s, {count / seconds:,.0f} rows/s"
            print(f"{count} rows of space {space} written to {output} ({speed}){skips.text}")
    finally:
        if is_own:
            spark.stop()


def _output_of(job: ExportJob, space: str) -> str:
    """Return the output directory of a space.

    Raises:
        BoxError: ILLEGAL_PARAMS, with --all the directory of this space would not be one below OUT.
    """
    if job.space is not None:
        return str(job.output)
    if "/" in space or space in (".", ".."):
        raise illegal_params(f"space '{space}' cannot name a directory: export it without --all")
    return f"{job.output}/{space}"


def _write(spark: Any, job: ExportJob, space: str, output: str, skips: SkipCount) -> int:
    """Write one space; return the number of rows.

    With Spark's own writer, `skips` stays empty: only the log of the executors has the number of skipped blocks.
    """
    from pyspark.sql import Observation, functions

    args = job.args
    if _is_direct(args, output):
        with Progress(spark, space, is_shown=args.progress or sys.stderr.isatty()):
            return _write_directly(spark, job, space, output, skips)
    frame = spark.read.format("box").options(**job.options(space)).load()
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


def _is_direct(args: argparse.Namespace, output: str) -> bool:
    """Return whether the tasks write the files themselves, without Spark's writer."""
    from box.spark.direct_parquet import can_write

    if args.where or args.partition_by or not can_write(output, args.compression):
        return False
    return bool(args.to == "parquet" or (is_installed(args.to) and not _is_among(dict(args.conf or ()), args.to)))


def _write_directly(spark: Any, job: ExportJob, space: str, output: str, skips: SkipCount) -> int:
    """Write a whole space in the tasks; return the number of rows."""
    from box.spark.direct_parquet import schema_of, write_table
    from box.spark.source_options import SourceOptions
    from box.spark.table import Table

    args = job.args
    table = Table.open(SourceOptions.of(job.options(space)))
    output = os.path.abspath(output.removeprefix("file://").removeprefix("file:"))
    count = write_table(spark, table, output, compression=args.compression, overwrite=args.overwrite, skips=skips)
    if args.to != "parquet":
        make_table(args.to, output, schema_of(table.columns))
    return count


def dry_run(job: ExportJob, spaces: Sequence[str]) -> None:
    """Print columns, rows and size of the spaces, without starting Spark."""
    from box.spark.source_options import SourceOptions
    from box.spark.table import Table

    for space in spaces:
        table = Table.open(SourceOptions.of(job.options(space)))
        for source in table.sources:
            print(f"space {space} in {source.path}, {source.size} bytes of files")
        for column in table.columns:
            print(f"  {column.name}: {column.type}{'' if column.is_nullable else ' not null'}")
        skips = table.new_skips()
        print(f"  {table.count(skips)} rows{'' if skips is None else skips.text}")


def report(job: ExportJob) -> None:
    """Write the report about the directory."""
    from box.spark.report.profile_pass import pieces_of, run_pass
    from box.spark.report.report_page import check_plotly, page

    check_plotly()
    check_page(job.args.report)
    pieces_of(job.directory)
    spark, is_own = _session(job.args)
    try:
        with Progress(spark, "report", is_shown=job.args.progress or sys.stderr.isatty()):
            found = run_pass(spark, job.directory)
    finally:
        if is_own:
            spark.stop()
    with open(job.args.report, "w", encoding="utf-8", errors="replace") as file:
        file.write(page(job.directory, found))
    print(f"report of {job.directory} written to {job.args.report}")


def _check(job: ExportJob, spaces: Sequence[str]) -> None:
    """Check spaces, columns and outputs before Spark starts a Java virtual machine.

    Raises:
        BoxError: a space or a column does not exist, or an output must not be written.
    """
    from box.spark.source_options import SourceOptions
    from box.spark.table import Table

    for space in spaces:
        options = {name: value for name, value in job.options(space).items() if name != "columns"}
        table = Table.open(SourceOptions.of(options))
        check_columns(job, [column.name for column in table.columns])
        if not job.args.dry_run:
            sources = [source.path for source in table.sources]
            check_output(_output_of(job, space), sources, overwrite=job.args.overwrite)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code: 0, 1 after an error message on standard error, or 130 after an
    interrupt.

    Raises:
        ModuleNotFoundError: a package of the extra `spark` is not installed.
    """
    job = job_of(argv)
    try:
        if job.args.report is not None:
            report(job)
            return 0
        spaces = exported_spaces(job)
        _check(job, spaces)
        if job.args.dry_run:
            dry_run(job, spaces)
        else:
            export(job, spaces)
    except BoxError as error:
        print(f"lunabox-export: {error}", file=sys.stderr)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"lunabox-export: {where}{error.strerror or error}", file=sys.stderr)
    except ModuleNotFoundError:
        raise
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # Spark wraps all errors in its own classes; the user needs only the text
        print(f"lunabox-export: {first_line(error)}", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
