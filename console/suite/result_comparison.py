"""Compares the output of a test with its result file, byte by byte.

| output, result file | outcome | file written |
|---|---|---|
| equal, and no server failed | passed | the reject file is removed |
| there is no result file | new | the result file |
| differs, and the user asked for an update | updated | the result file |
| differs, or something failed | failed | the reject file, beside the result file |
"""

from __future__ import annotations

from pathlib import Path

from console.suite.case import Settings, TestCase
from console.suite.report import Report, RunOutcome
from console.suite.suite_ini import SuiteError


def read_result(case: TestCase) -> str | None:
    """Return the content of the result file, None without one."""
    return case.result.read_text(errors="surrogateescape") if case.result.exists() else None


def compare_result(
    case: TestCase,
    settings: Settings,
    output: str,
    expected: str | None,
    problem: str | None,
    failures: list[str],
    logs: str,
) -> Report:
    """Compare the output of a run with its result file, and return the report of the case.

    `expected` is the content of that file, None without one. `problem` and `failures` make the case fail whatever its
    output; `logs` are shown then. A case that passes has no reject file; without a result file the output becomes one.
    """
    notes = [note for note in (problem, *failures) if note]
    if output == expected and not notes:
        case.reject.unlink(missing_ok=True)
        return Report(RunOutcome.PASSED)
    if not notes and (expected is None or settings.update):
        _write(case.result, output)
        case.reject.unlink(missing_ok=True)
        if expected is None:
            return Report(RunOutcome.NEW, f"{case.result.name} written")
        return Report(RunOutcome.UPDATED, f"{case.result.name} written")
    try:
        _write(case.reject, output)
    except SuiteError as error:
        notes.append(str(error))
    difference = _difference(expected or "", output, case)
    return Report(RunOutcome.FAILED, "\n".join([*notes, difference, logs]), output=output)


def _difference(expected: str, output: str, case: TestCase) -> str:
    import difflib  # only failures need it

    lines = (expected.splitlines(keepends=True), output.splitlines(keepends=True))
    return "".join(difflib.unified_diff(*lines, case.result.name, case.reject.name))


def _write(path: Path, output: str) -> None:
    """Write a result file. Raises SuiteError."""
    try:
        path.write_text(output, errors="surrogateescape")
    except OSError as error:
        raise SuiteError(f"cannot write {path}: {error.strerror}") from error
