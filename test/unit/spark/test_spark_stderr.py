"""What Spark's processes write to standard error: news pass, announcements and closed connections do not."""

from __future__ import annotations

import subprocess
import sys

from box.spark.spark_stderr import news_in

TRACEBACK = ["Traceback (most recent call last):", '  File "daemon.py", line 95, in worker', "    outfile.flush()"]


def shown(*lines: str) -> list[str]:
    return [line.decode() for line in news_in(line.encode() for line in lines)]


def test_announcements_are_no_news() -> None:
    assert shown(
        "WARNING: Using incubator modules: jdk.incubator.vector",
        "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties",
        "26/11/27 13:53:28 WARN Utils: Your hostname, vm, resolves to a loopback address",
        'Setting Spark log level to "FATAL".',
        "26/11/27 13:53:28 WARN TaskSetManager: Lost task",
    ) == ["26/11/27 13:53:28 WARN TaskSetManager: Lost task"]


def test_a_closed_connection_is_no_news() -> None:
    assert shown("a", *TRACEBACK, "BrokenPipeError: [Errno 32] Broken pipe", "b") == ["a", "b"]
    twice = (*TRACEBACK, "EOFError") * 2
    assert shown(*twice) == []


def test_other_tracebacks_are_shown() -> None:
    """A traceback in its place, one that is cut off, and one that another follows."""
    whole = [*TRACEBACK, "ValueError: x", "b"]
    assert shown(*whole) == whole
    assert shown("a", *TRACEBACK) == ["a", *TRACEBACK]
    assert shown(*TRACEBACK, *TRACEBACK, "BrokenPipeError") == TRACEBACK


def test_children_write_through_the_filter() -> None:
    """Lines of a child pass the filter, those of the process itself do not need to."""
    source = """
import subprocess, sys, threading
from box.spark.spark_stderr import filtered_for_children
with filtered_for_children():
    child = subprocess.Popen(["sh", "-c", "echo 'Setting Spark log level' >&2; echo news >&2"])
child.wait()
for thread in threading.enumerate():
    if thread.name == "spark-stderr":  # it may have ended
        thread.join(20)
print("Setting Spark log level, itself", file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    assert run.stderr == "news\nSetting Spark log level, itself\n"
