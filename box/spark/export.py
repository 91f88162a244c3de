"""`lunabox-export DIR SPACE --to parquet|csv|json OUT`: one space of a snapshot written by Spark."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from box.errors import BoxError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lunabox-export", description="Export one space of the newest snapshot of a directory, without a node."
    )
    parser.add_argument("directory", metavar="DIR", help="directory with snapshots, or one .snap file")
    parser.add_argument("space", metavar="SPACE", help="name or id of the space")
    parser.add_argument("--to", choices=("parquet", "csv", "json"), required=True, help="format of the output")
    parser.add_argument("output", metavar="OUT", help="directory to write")
    parser.add_argument("--partitions", type=int, metavar="N", help="read in at most N parts")
    parser.add_argument("--unsigned", choices=("long", "decimal"), default="long", help="type of integer columns")
    parser.add_argument("--rest", metavar="NAME", help="column for fields that the format does not name")
    parser.add_argument("--skip-corrupt", action="store_true", help="pass over blocks that cannot be read")
    parser.add_argument("--overwrite", action="store_true", help="replace what OUT holds")
    parser.add_argument("--master", default="local[*]", help="Spark master (default: %(default)s)")
    return parser


def _options(args: argparse.Namespace) -> dict[str, str]:
    options = {
        "path": args.directory,
        "space": args.space,
        "unsigned": args.unsigned,
        "onCorrupt": "skip" if args.skip_corrupt else "fail",
    }
    if args.partitions is not None:
        options["partitions"] = str(args.partitions)
    if args.rest is not None:
        options["rest"] = args.rest
    return options


def _check(args: argparse.Namespace) -> None:
    """Find what is wrong with the input before a Java virtual machine is started."""
    from box.spark.source_options import SourceOptions
    from box.spark.table import Table

    Table.open(SourceOptions.of(_options(args)))


def export(args: argparse.Namespace) -> int:
    """Write the files; returns the number of rows."""
    from pyspark.sql import SparkSession

    from box.spark.source import BoxDataSource

    # Spark's workers are Python processes; without this they would be whatever python3 comes first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found = SparkSession.getActiveSession()
    spark = (
        SparkSession.builder.master(args.master)
        .appName("lunabox-export")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        spark.dataSource.register(BoxDataSource)
        frame = spark.read.format("box").options(**_options(args)).load()
        writer = frame.write.mode("overwrite" if args.overwrite else "errorifexists")
        if args.to == "csv":
            writer = writer.option("header", "true")
        writer.format(args.to).save(args.output)
        read_back = spark.read.schema(frame.schema).format(args.to)
        if args.to == "csv":
            read_back = read_back.option("header", "true")
        return int(read_back.load(args.output).count())
    finally:
        if found is None:
            spark.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with the error on standard error."""
    args = _parser().parse_args(argv)
    try:
        _check(args)
        count = export(args)
    except BoxError as error:
        print(f"lunabox-export: {error}", file=sys.stderr)
        return 1
    except ImportError:
        print("lunabox-export: Spark is not installed: pip install 'lunabox[spark]'", file=sys.stderr)
        return 1
    except Exception as error:  # Spark wraps every failure in classes of its own; the user needs the text.
        print(f"lunabox-export: {error}", file=sys.stderr)
        return 1
    print(f"{count} rows of space {args.space} written to {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
