"""Runs command lines with Lunabox and with Tarantool, each in a fresh directory, and compares everything seen of them.

`python -m test.interop.command_lines --kind log` runs cases on both (`LUNABOX_TARANTOOL`, or `tarantool` on PATH), and
prints what differs. Compared: exit code, standard output and error, names of made files, contents of those that are
text. Made equal: times, process ids, UUIDs, paths, lines of builtin modules, files of C code.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from test.interop.command_line_cases import CASES, Case

LUNABOX = str(Path(sys.executable).with_name("lunabox"))
_LIMIT = 20.0
"""The seconds after which a case is ended."""

_END = 2.0
"""The seconds in which its processes may end by themselves."""

_SHELL = """
# Waits for a text in a file.
await() {
    for _ in $(seq 400); do grep -qs -- "$1" "$2" && return; sleep 0.05; done
    echo "no '$1' in $2"
}
# Ends the process of a number with a signal, and shows its exit code.
end() { kill -"$1" "$2"; wait "$2"; echo "code $?"; }
"""

_STAMP = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d+(?:[+-]\d{4})?"
_EQUAL = [
    (re.compile(rf"{_STAMP} \[\d+\]"), "TIME [PID]"),
    (re.compile(_STAMP), "TIME"),
    (re.compile(r'"pid": \d+'), '"pid": PID'),
    (re.compile(r"(PID|pid|process) \d+"), r"\1 PID"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r" \w+\.(?:cc?|h):\d+ ([A-Z!]>)"), r" \1"),
    (re.compile(r" (?:schema\w*|load_cfg|session|fiber|finish)\.lua:\d+ ([A-Z]>)"), r" \1"),
    (re.compile(r', "file": "[^"]*(?:\.cc?|\.h|builtin[^"]*)", "line": \d+'), ""),
    (re.compile(r"builtin/([\w./]+)(?:\.lua)?:\d+"), r"builtin/\1:LINE"),
    (re.compile(r"- line: \d+(?=\n *source: '@builtin)"), "- line: LINE"),
    (re.compile(r"Tarantool 2\.8\.1-\d+-g\w+"), "Tarantool VERSION"),
    (re.compile(r"0x[0-9a-f]{6,}"), "ADDRESS"),
    (re.compile(r"(line \d+:) \d+ (Killed|Terminated)"), r"\1 \2"),
    (re.compile(r"called on fd \d+"), "called on fd N"),
    (re.compile(r"(scheduled next checkpoint for) [\w :]*"), r"\1 TIME"),
    (re.compile(r"/tmp/cmd-\w+"), "PLACE"),
]

_ONLY_THERE = re.compile(
    r"mapping \d+ bytes for \w+ tuple arena|Actual slab_alloc_factor|feedback_daemon (?:re)?st|"
    r"D> (?:cbus|cord|cpipe|memtx_|tuple_|vy_|popen: free|mempool|small|lsregion|coio)"
)
"""Lines of Tarantool's log about parts that Lunabox has not: its memory, its threads, the feedback daemon."""


class Seen(NamedTuple):
    """What a case left: the code of its shell, its output, and the files by their names."""

    code: int
    output: str
    errors: str
    files: dict[str, str]

    def lines(self) -> list[str]:
        parts = {"stdout": self.output, "stderr": self.errors, **self.files}
        shown = [f"code {self.code}"]
        for name, text in parts.items():
            shown += [f"{name}: {line}" for line in text.splitlines() or [""]]
        return shown


def normalised(text: str, directory: str, executable: str) -> str:
    """Make everything equal that differs between two runs of one program."""
    for path in (os.path.realpath(executable), executable):
        text = text.replace(path, "EXECUTABLE")
    text = text.replace(directory, "DIR")
    for pattern, replacement in _EQUAL:
        text = pattern.sub(replacement, text)
    return "".join(line for line in text.splitlines(keepends=True) if not _ONLY_THERE.search(line))


def run(case: Case, executable: str) -> Seen:
    """Run a case in a fresh directory. Its processes are ended at last."""
    # A link makes both have one name, which messages and titles show.
    with tempfile.TemporaryDirectory(prefix="cmd-", ignore_cleanup_errors=True) as place:
        directory, command = Path(place, "d"), Path(place, "tarantool")
        directory.mkdir()
        command.symlink_to(executable)
        for name, text in case.files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
        path = f"{place}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(directory), "T": command.name, "LC_ALL": "C.UTF-8"}
        for name in ("PYTHONPATH", "PYTHONPYCACHEPREFIX"):
            if name in os.environ:
                environment[name] = os.environ[name]
        with Path(place, "out").open("w+b") as output, Path(place, "err").open("w+b") as errors:
            shell = subprocess.Popen(
                ["bash", "-c", _SHELL + case.command],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            try:
                code = shell.wait(_LIMIT)
            except subprocess.TimeoutExpired:
                code = -1
                _terminate(shell.pid)
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            if code == -1:
                shell.wait()
        equal = partial(normalised, directory=str(directory), executable=str(command))
        output_text, errors_text = (equal(Path(place, name).read_text(errors="replace")) for name in ("out", "err"))
        return Seen(code, output_text, errors_text, {name: equal(text) for name, text in _made(directory, case)})


def _terminate(group: int) -> None:
    """Let the processes of a group end by themselves: Tarantool writes its output when it ends."""
    os.killpg(group, signal.SIGTERM)
    deadline = time.monotonic() + _END
    while time.monotonic() < deadline:
        living = subprocess.run(["pgrep", "-g", str(group), "-r", "R,S,D"], capture_output=True, check=False)
        if living.returncode:
            return
        time.sleep(0.05)


def _made(directory: Path, case: Case) -> Iterable[tuple[str, str]]:
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if name in case.files or path.is_dir() or path.is_socket():
            continue
        is_text = path.is_file() and path.suffix not in (".snap", ".xlog", ".vylog", ".pid", ".inprogress")
        yield name, path.read_text(errors="replace") if is_text else ""


def difference(case: Case, tarantool: str, context: int = 1) -> str:
    """Run a case on both. Returns how the results differ, as lines, or an empty text."""
    theirs, ours = run(case, tarantool).lines(), run(case, LUNABOX).lines()
    changes = difflib.unified_diff(theirs, ours, "tarantool", "lunabox", lineterm="", n=context)
    return "\n".join(list(changes)[2:])


def find_tarantool() -> str | None:
    """Return the path of Tarantool's executable if there is one of the 2.8 line."""
    found = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
    if found is None:
        return None
    shown = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=30).stdout
    return found if shown.startswith("Tarantool 2.8.") else None


def chosen(kinds: list[str] | None, name: str = "") -> list[Case]:
    """Return the cases of some kinds (None: all) whose names contain a text."""
    return [case for case in CASES if (kinds is None or case.kind in kinds) and name in f"{case.kind}/{case.name}"]


def main() -> None:
    """Compare the cases that the arguments choose."""
    parser = argparse.ArgumentParser(description="Compare command lines with a real Tarantool.")
    parser.add_argument("--kind", action="append", choices=sorted({case.kind for case in CASES}), help="a kind of case")
    parser.add_argument("--name", default="", help="only cases whose kind/name contains this text")
    parser.add_argument("--all", action="store_true", help="show whole results, not only what differs")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    options = parser.parse_args()
    cases = chosen(options.kind, options.name)
    if options.list:
        print("\n".join(f"{case.kind}/{case.name}" for case in cases))
        return
    tarantool = find_tarantool()
    if tarantool is None:
        sys.exit("no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL")
    differ = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        compare = partial(difference, tarantool=tarantool, context=1000 if options.all else 1)
        for case, found in zip(cases, pool.map(compare, cases), strict=True):
            if found:
                differ += 1
                print(f"=== {case.kind}/{case.name}: {case.command}\n{found}", flush=True)
    print(f"{len(cases)} cases, {differ} differ")


if __name__ == "__main__":
    main()
