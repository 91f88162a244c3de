"""The command line of `lunabox-export`, which is checked before Spark starts a Java virtual machine."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from box.errors import illegal_params
from box.spark.definitions import USER_SPACES
from box.version import VERSION

FORMATS: Final = ("parquet", "csv", "json", "orc", "delta", "iceberg")
COMPRESSIONS: Final = ("none", "snappy", "gzip", "zstd", "lz4", "zlib", "bzip2", "deflate")

_FORMS: Final = """
  lunabox-export DIR SPACE --to FORMAT OUT     one space into the directory OUT
  lunabox-export DIR --all --to FORMAT OUT     every space into a directory of its own below OUT
  lunabox-export DIR SPACE --dry-run           schema, rows and size; nothing is written
  lunabox-export DIR --report OUT.html         one page about the directory
"""


@dataclass(frozen=True, slots=True)
class ExportJob:
    """A checked command line: `space` (None: all) of `directory` is written to `output` (None: a dry run or a
    report)."""

    directory: str
    space: str | None
    output: str | None
    args: argparse.Namespace

    def options(self, space: str) -> dict[str, str]:
        """Return the options of the data source for one space."""
        args = self.args
        values = {
            "path": self.directory,
            "space": space,
            "as_of": args.as_of,
            "log": args.log,
            # A condition may need columns that are not exported. Then the columns are selected after it.
            "columns": args.columns if args.where is None else None,
            "partitions": args.partitions,
            "unsigned": args.unsigned,
            "rest": args.rest,
            "onCorrupt": "skip" if args.skip_corrupt else "fail",
            "decoder": args.decoder,
        }
        return {name: str(value) for name, value in values.items() if value is not None}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options; `job_of` interprets the positional arguments."""
    found = argparse.ArgumentParser(
        prog="lunabox-export",
        usage=f"lunabox-export [options] ...\n{_FORMS}",
        description="Export spaces of a directory with Spark, without a node.",
    )
    found.add_argument("places", nargs="*", metavar="DIR SPACE OUT", help="directory or one .snap file; space; output")
    found.add_argument("--to", choices=FORMATS, help="format of the output")
    found.add_argument("--all", action="store_true", help="every space that is not a system space")
    found.add_argument("--where", metavar="SQL", help="a condition on the columns, as Spark's SQL has it")
    found.add_argument("--columns", metavar="NAMES", help="names of columns, separated by commas")
    found.add_argument("--as-of", metavar="MOMENT", help="with the log: latest, an lsn, a vclock or a time")
    found.add_argument("--log", metavar="DIR", help="directory of the log files, if it is another one")
    found.add_argument("--partition-by", metavar="NAMES", help="columns whose values become directories of the output")
    found.add_argument("--compression", choices=COMPRESSIONS, help="of the output's files (default: the format's own)")
    found.add_argument("--partitions", type=_positive, metavar="N", help="read in about N parts")
    found.add_argument("--unsigned", choices=("long", "decimal"), default="long", help="type of integer columns")
    found.add_argument("--rest", metavar="NAME", help="column for fields that the format does not name")
    found.add_argument("--skip-corrupt", action="store_true", help="leave damaged blocks out and report them")
    found.add_argument(
        "--decoder",
        choices=("auto", "compiled", "python"),
        default="auto",
        help="what decodes blocks (default: %(default)s)",
    )
    found.add_argument("--overwrite", action="store_true", help="replace the content of OUT")
    found.add_argument(
        "--dry-run", action="store_true", help="print the schema, the number of rows and the size; write nothing"
    )
    found.add_argument("--progress", action="store_true", help="show a progress bar even without a terminal")
    found.add_argument("--report", metavar="OUT.html", help="write a page about spaces, columns and log; needs plotly")
    found.add_argument("--conf", action="append", metavar="KEY=VALUE", type=_setting, help="a setting of Spark")
    found.add_argument("--master", default="local[*]", help="Spark master (default: %(default)s)")
    found.add_argument(
        "--version", action="version", version=f"{found.prog} {VERSION}", help="print the version and exit"
    )
    return found


def _positive(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive integer")
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key, value


def names_of(text: str | None) -> list[str]:
    """Return the names in a list separated by commas."""
    return [] if text is None else [name.strip() for name in text.split(",")]


def job_of(argv: Sequence[str] | None) -> ExportJob:
    """Parse the command line; ends the process with a message if it is wrong, as argparse does."""
    command = parser()
    args = command.parse_intermixed_args(argv)
    if args.report is not None and (args.all or args.dry_run or args.to is not None):
        command.error("--report goes without --all, --dry-run and --to")
    wanted = 1 if args.report is not None else 1 + (not args.all) + (not args.dry_run)
    if len(args.places) != wanted:
        command.error(f"{wanted} arguments are needed, {len(args.places)} given: see the forms above")
    if not args.dry_run and args.report is None and args.to is None:
        command.error("--to is needed: " + ", ".join(FORMATS))
    places = list(args.places)
    directory = places.pop(0)
    space = None if args.all or args.report is not None else places.pop(0)
    return ExportJob(directory, space, places[0] if places else None, args)


def exported_spaces(job: ExportJob) -> list[str]:
    """Return the names of the spaces to export.

    Raises:
        BoxError: ILLEGAL_PARAMS, there are only system spaces, or the directory cannot be read.
    """
    if job.space is not None:
        return [job.space]
    from box.spark.source_options import SourceOptions
    from box.spark.table import spaces_of

    found = spaces_of(SourceOptions.of(job.options("any")))
    names = [space.name for space in found if space.id >= USER_SPACES and space.primary is not None]
    if not names:
        raise illegal_params(f"{job.directory} holds no spaces but system spaces")
    return names


def check_columns(job: ExportJob, columns: Sequence[str]) -> None:
    """Check that a space has the columns of the command line.

    Raises:
        BoxError: ILLEGAL_PARAMS, a column does not exist.
    """
    for option, text in (("--columns", job.args.columns), ("--partition-by", job.args.partition_by)):
        for name in names_of(text):
            if name not in columns:
                raise illegal_params(f"{option}: there is no column '{name}'; there are: {', '.join(columns)}")
