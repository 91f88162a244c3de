"""The process from which Spark forks its Python workers, as of pyspark, but silent about connections that Spark closes.

At its end, or when it needs no more rows, Spark closes the connections of workers that still read or write. The daemon
of pyspark then prints a traceback, although nothing is wrong. Spark starts this module by `spark.python.daemon.module`.
"""

from __future__ import annotations

from typing import Any

from pyspark import daemon

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """Serve one task. Returns the exit code, 1 if nobody waits for the rows any more."""
    try:
        code: int = _worker(sock, authenticated)
    except (OSError, EOFError):
        return 1
    return code


def main() -> None:
    """Run the daemon, which never returns."""
    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()
