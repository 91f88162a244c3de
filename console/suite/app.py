"""`core = app`: a script that is its own node and speaks TAP 13 on its standard output."""

from __future__ import annotations

import re

from console.suite.instance import InstanceProcess, ServerError

_PLAN = re.compile(r"^1\.\.(\d+)", re.MULTILINE)


async def run_app(server: InstanceProcess, timeout: float, expected: str | None) -> str | None:
    """Run the script; what is wrong with its output or its end, or None."""
    try:
        code, output, errors = await server.run_to_end(timeout)
    except (TimeoutError, ServerError) as error:
        return str(error) or f"not finished within {timeout:g} s"
    problem = check_output(output, expected)
    if code != 0:
        problem = f"exit code {code}" + (f"; {problem}" if problem else "")
    return f"{problem}\n{output}{errors}" if problem else None


def check_output(output: str, expected: str | None) -> str | None:
    """With a result file: byte equality. Without: a TAP plan that is kept, and no `not ok`."""
    if expected is not None:
        return None if output == expected else "the output differs from the result file"
    lines = output.splitlines()
    if not lines or not lines[0].startswith("TAP version 13"):
        return "no TAP output"
    failed = [line for line in lines if line.startswith("not ok") and "# TODO" not in line]
    if failed:
        return failed[0]
    plan = _PLAN.search(output)
    if plan is None:
        return "no plan"
    passed = sum(line.startswith("ok ") for line in lines)
    return None if passed == int(plan[1]) else f"planned {plan[1]} tests, ran {passed}"
