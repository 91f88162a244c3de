"""Command lines have the same exit codes, output, logs and files with Lunabox and with Tarantool 2.8.

`LUNABOX_TARANTOOL` names the executable. The sample is every case of two kinds and one in eight of the others; all are
run by `python -m test.interop.command_lines`.
"""

from __future__ import annotations

import pytest

from test.interop.command_line_cases import CASES, Case
from test.interop.command_lines import difference, find_tarantool, normalised

DIFFERENT = {
    "arguments/arguments of e": "the name without a folder does not reach a script of Python",
    "arguments/arguments of input": "the same",
    "arguments/unknown among known": "the text of the version",
    "arguments/bytecode": "the compilers write different bytecode",
    "arguments/closed input": "Tarantool compiles what the C library reads from a closed descriptor",
    "arguments/full disk": "Lunabox tells that its output is lost",
    "sessions/i and script": "Tarantool keeps a history without a terminal",
}
"""The cases of the sample that differ, and why; `docs/reference/lunabox.md` says so."""

_WHOLE = ("arguments", "expressions")
SAMPLE = [case for number, case in enumerate(CASES) if case.kind in _WHOLE or number % 8 == 0]


@pytest.fixture(scope="module")
def tarantool() -> str:
    found = find_tarantool()
    if found is None:
        pytest.skip("no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL")
    return found


@pytest.mark.tarantool
def test_a_sample_is_equal(tarantool: str) -> None:
    """At most one case in ten differs otherwise than is known; the failure shows all of them."""
    cases = [case for case in SAMPLE if f"{case.kind}/{case.name}" not in DIFFERENT]
    found = {f"{case.kind}/{case.name}": difference(case, tarantool) for case in cases}
    different = [f"{name}\n{text}" for name, text in found.items() if text]
    assert len(different) <= len(cases) / 10, "\n".join(different)


def test_every_case_has_a_name_of_its_own() -> None:
    names = [f"{case.kind}/{case.name}" for case in CASES]
    assert len(names) == len(set(names)) >= 300
    assert set(DIFFERENT) <= set(names)


def test_a_difference_is_found() -> None:
    """Times, numbers of processes and paths are equal; texts, levels and fibers are not."""

    def line(text: str) -> str:
        return normalised(f"2026-11-27 10:00:00.123 [7] main/103/a.lua {text}", "/tmp/x/d", "/tmp/x/tarantool")

    assert line("I> y") == normalised("2027-01-01 01:02:03.456 [99] main/103/a.lua I> y", "/e/d", "/e/t")
    assert line("sio.c:12 !> /tmp/x/d/y") == line("!> /tmp/x/d/y")
    assert line("I> y") != line("W> y") != line("W> z")
    assert line("D> cbus_endpoint_fetch: locking") == ""


def test_a_case_that_differs_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `sh` as both executables, a case that prints its own number differs, and one that does not is equal."""
    monkeypatch.setattr("test.interop.command_lines.LUNABOX", "/bin/sh")
    assert difference(Case("x", "same", "$T -c 'echo 1'", {}), "/bin/sh") == ""
    assert "stdout" in difference(Case("x", "other", "date +%N", {}), "/bin/sh")
