"""`core = app` and `core = tap`: a script that is its own node and writes TAP 13 to standard output."""

from __future__ import annotations

import re
from dataclasses import dataclass

from console.suite.instance import InstanceProcess, ServerError

NO_TAP = "no TAP output"
_VERSION = re.compile(r"^TAP version 13\s*$", re.MULTILINE)
_PASSED = re.compile(r"ok\b")
_PLAN = re.compile(r"^1\.\.(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AppRun:
    """The output of a script, and the problem with its end, if any."""

    output: str
    errors: str
    problem: str | None = None
    is_late: bool = False


async def run_app(server: InstanceProcess, timeout: float) -> AppRun:
    """Run the script to its end or to the time limit."""
    try:
        code, output, errors = await server.run_to_end(timeout)
    except ServerError as error:
        return AppRun("", "", str(error))
    if code is None:
        return AppRun(output, errors, f"not finished within {timeout:g} s", is_late=True)
    return AppRun(output, errors, f"exit code {code}" if code else None)


def check_output(output: str, expected: str | None) -> str | None:
    """Return the problem with a script's output, or None.

    With a result file the output must equal it byte by byte. Without one it must be TAP, keep its plan and have no `not
    ok`. Lines before the version of TAP do not matter, nor do indented ones, of tests inside tests.
    """
    if expected is not None:
        return None if output == expected else "the output differs from the result file"
    begin = _VERSION.search(output)
    if begin is None:
        return NO_TAP
    tap = output[begin.end() :]
    failed = [line for line in tap.splitlines() if line.startswith("not ok") and "# TODO" not in line]
    if failed:
        return failed[0]
    plan = _PLAN.search(tap)
    if plan is None:
        return "no plan"
    passed = sum(bool(_PASSED.match(line)) for line in tap.splitlines())
    return None if passed == int(plan[1]) else f"planned {plan[1]} tests, ran {passed}"
