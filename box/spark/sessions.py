"""Spark sessions of the commands, and short texts for Spark's errors."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

_LINKAGE_ERRORS: Final = (
    "AbstractMethodError",
    "IncompatibleClassChangeError",
    "NoClassDefFoundError",
    "NoSuchFieldError",
    "NoSuchMethodError",
)
"""Java's errors for a package that was built for another version of Spark."""

_JAVA_ERROR: Final = re.compile(r".*\b(?:\w+\.)+\w*(?:Exception|Error): (.*\S)")
"""A class of Java's errors, and a text."""


def spark_session(name: str, master: str, settings: Mapping[str, str]) -> tuple[Any, bool]:
    """Return a Spark session with the data source `box`, and whether it was created here."""
    from pyspark.sql import SparkSession

    from box.spark.java_home import use_packaged_java
    from box.spark.source import BoxDataSource
    from box.spark.spark_stderr import filtered_for_children

    use_packaged_java()

    # Spark's workers are Python processes. Without this they would use the first python3 on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found = SparkSession.getActiveSession()
    builder = (
        SparkSession.builder.master(master)
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        # The commands report the error that ends them in one line; Spark would log it with stacks of Java.
        .config("spark.log.level", "FATAL")
        # Batches of a worker reach Java through a Unix socket, which costs less than TCP.
        .config("spark.python.unix.domain.socket.enabled", "true")
        # Arrow's own allocators keep memory that is free, about a sixth of the memory of a worker.
        .config("spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL", "system")
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    # pyspark logs errors of queries that the commands report themselves.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with filtered_for_children():
        spark = builder.getOrCreate()
    spark.dataSource.register(BoxDataSource)
    return spark, found is None


def _reason_of_failed_task(lines: list[str]) -> str | None:
    """Return the text of the innermost error of a task that has failed, None if no error has a text."""
    causes = [line for line in lines if line.startswith("Caused by: ")]
    found = [match[1] for match in map(_JAVA_ERROR.match, [*causes[::-1], lines[1]]) if match]
    return found[0] if found else None


def first_line(error: Exception) -> str:
    """Return the text of a Spark error without the Java stack."""
    lines = str(error).strip().splitlines() or [repr(error)]
    marked = next((line for line in lines if "box: " in line), None)
    if marked is not None:
        return marked.strip()
    if not lines[0].startswith("An error occurred while calling") or len(lines) == 1:
        return lines[0]
    text = lines[1].removeprefix(": ")
    if "Job aborted due to stage failure" in text:
        return _reason_of_failed_task(lines) or text
    is_foreign = any(f"java.lang.{name}" in text for name in _LINKAGE_ERRORS) and "initialize class java." not in text
    return f"{text} (a package for another version of Spark?)" if is_foreign else text
