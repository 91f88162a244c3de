"""The command `lunabox-test PATH...`: runs suites and prints the results.

The process that nodes are forked from (`console.suite.warm`) is itself forked before the runner imports anything else,
and prepares itself in parallel.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from box.exit_status import INTERRUPTED
from console.suite.early_fork import EarlyFork, fork_early


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns the exit code: 0 all passed, 1 a test failed, 2 nothing could be run, 130 interrupted.

    Without `arguments` it takes those of the process, and ends the process.
    """
    return _run(arguments, None) if arguments is not None else _run_and_leave(sys.argv[1:])


def _run_and_leave(arguments: list[str]) -> NoReturn:
    early = fork_early(arguments)
    try:
        code = _run(arguments, early)
    except KeyboardInterrupt:  # while modules are imported; later the runner answers it itself
        code = INTERRUPTED
    finally:
        if early is not None:
            early.end()
    from console.leave import leave

    leave(code)


def _run(arguments: list[str], early: EarlyFork | None) -> int:
    from console.suite.runner_options import parse_options
    from console.suite.warm import make_warm

    options = parse_options(arguments)
    warm = make_warm(options.executable, early) if options.fork else None
    try:
        from console.suite import suite_run

        return suite_run.run(options, warm)
    finally:
        if warm is not None:
            warm.close()


if __name__ == "__main__":
    sys.exit(main())
