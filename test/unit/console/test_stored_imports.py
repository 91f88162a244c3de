"""Imports from a store of compiled code: equal to the usual ones, never of a source that has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
from console.stored_imports import StoredImports
sys.path.insert(0, sys.argv[1])
with StoredImports("test"):
    import sample.part
    from sample import VALUE
spec = sample.part.__spec__
print(json.dumps({
    "value": VALUE, "loader": type(spec.loader).__name__, "files": [sample.__file__, sample.part.__file__],
    "cached": [sample.__cached__, sample.part.__cached__], "path": list(sample.__path__),
    "code": sample.part.function.__code__.co_filename, "source": spec.loader.get_source("sample.part"),
}))
"""


def run(folder: Path, program: str = PROGRAM, **environment: str) -> dict[str, object]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env={**inherited, "PYTHONPYCACHEPREFIX": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def sample(folder: Path) -> Path:
    package = folder / "sample"
    package.mkdir()
    (package / "__init__.py").write_text("VALUE = 1\n")
    (package / "part.py").write_text("def function():\n    return 1\n")
    return package


def stores(folder: Path) -> list[Path]:
    return list((folder / "cache").rglob("test.*.store"))


def test_second_import_is_like_the_first(tmp_path: Path) -> None:
    sample(tmp_path)
    first, second = run(tmp_path), run(tmp_path)
    assert (first.pop("loader"), second.pop("loader")) == ("SourceFileLoader", "_StoredLoader")
    assert first == second


def test_changed_source_is_read(tmp_path: Path) -> None:
    package = sample(tmp_path)
    run(tmp_path)
    (package / "__init__.py").write_text("VALUE = 22\n")
    assert run(tmp_path)["value"] == 22
    again = run(tmp_path)  # from the store that was written anew
    assert (again["value"], again["loader"]) == (22, "_StoredLoader")


def test_source_of_another_time_is_read(tmp_path: Path) -> None:
    """A change that keeps the size."""
    package = sample(tmp_path)
    run(tmp_path)
    (package / "__init__.py").write_text("VALUE = 3\n")
    os.utime(package / "__init__.py", (1_000_000_000, 1_000_000_000))
    assert run(tmp_path)["value"] == 3


def test_damaged_stores_are_empty(tmp_path: Path) -> None:
    sample(tmp_path)
    run(tmp_path)
    (store,) = stores(tmp_path)
    whole = store.read_bytes()
    for damaged in (b"", whole[:4], whole[:40], whole[:-1], whole + b"x", b"\xff" * 100, b"\x00" * 100):
        store.write_bytes(damaged)
        assert run(tmp_path, PYTHONDONTWRITEBYTECODE="1")["value"] == 1
        assert store.read_bytes() == damaged
    run(tmp_path)
    assert run(tmp_path)["loader"] == "_StoredLoader"


def test_nothing_is_written_where_python_writes_nothing(tmp_path: Path) -> None:
    sample(tmp_path)
    run(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert not stores(tmp_path)


def test_command_takes_its_modules_from_stores(tmp_path: Path) -> None:
    """The command works the same with stores, and has them after its first run."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    outputs = set()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "console", "-e", "print(pcall(box.cfg)) print(box.info.status) os.exit(3)"],
            env={**inherited, "PYTHONPYCACHEPREFIX": str(tmp_path)},
            cwd=_folder(tmp_path),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        outputs.add((done.returncode, done.stdout))
    assert outputs == {(3, "true\nrunning\n")}
    assert sorted(path.name.partition(".")[0] for path in tmp_path.rglob("*.store")) == [
        "command",
        "command-texts",
        "node",
        "node-texts",
    ]


def _folder(parent: Path) -> Path:
    folder = parent / f"run{len(list(parent.glob('run*')))}"
    folder.mkdir()
    return folder


CLASSES = """
import builtins, json, sys, types
from console.stored_imports import StoredImports
compiled = []
def count(*arguments, **options):
    compiled.append(arguments[0])
    return real(*arguments, **options)
real, builtins.compile = compile, count
with StoredImports("test"):
    import dataclasses, collections, typing
    seen = len(compiled)
    @dataclasses.dataclass(frozen=True, slots=True, order=True)
    class Record:
        number: int
        text: str = "none"
    Pair = collections.namedtuple("Pair", "one other", defaults=[5])
    Triple = typing.NamedTuple("Triple", [("one", "list[int]"), ("other", "'Pair'"), ("rest", "unseen.type")])
made = len(compiled) - seen
@dataclasses.dataclass
class Later:
    number: int = 3
record = Record(1)
code = Record.__init__.__code__
print(json.dumps({
    "made": made,
    "hints": str(typing.get_type_hints(Triple, localns={"unseen": types.SimpleNamespace(type=str), "Pair": Pair})),
    "values": [repr(record), record < Record(2), hash(record) == hash(Record(1)), repr(Pair(1)), Later().number],
    "code": [code.co_filename, code.co_name, list(code.co_varnames), Record.__init__.__qualname__],
    "names": ["exec" in vars(dataclasses), "eval" in vars(collections), "compile" in vars(typing)],
}))
"""


def test_methods_of_records_are_compiled_once(tmp_path: Path) -> None:
    """Methods that are compiled from text are like those of any other class; the second process finds their code."""
    first, second = run(tmp_path, CLASSES), run(tmp_path, CLASSES)
    made, found = first.pop("made"), second.pop("made")
    assert isinstance(made, int)
    assert made > 1  # one for each method, or, from Python 3.13 on, one for each class
    assert found == 0
    assert first == second
    assert first["values"] == ["Record(number=1, text='none')", True, True, "Pair(one=1, other=5)", 3]
    assert first["code"] == ["<string>", "__init__", ["self", "number", "text"], "Record.__init__"]
    assert first["hints"] == "{'one': list[int], 'other': <class '__main__.Pair'>, 'rest': <class 'str'>}"
    assert first["names"] == [False, False, False]


def test_torn_file_of_texts_is_no_file(tmp_path: Path) -> None:
    run(tmp_path, CLASSES)
    (file,) = (tmp_path / "cache").rglob("test-texts.*.store")
    file.write_bytes(file.read_bytes()[:-20])
    again = run(tmp_path, CLASSES)
    made = again["made"]
    assert isinstance(made, int)
    assert made > 1  # one for each method, or, from Python 3.13 on, one for each class
    assert run(tmp_path, CLASSES)["made"] == 0
