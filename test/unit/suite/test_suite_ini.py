"""suite.ini, suite.cfg, and the tests that they make of a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.suite.runner import discover
from console.suite.suite_ini import SuiteError, load_suite


def suite(directory: Path, ini: str, cfg: str | None = None) -> Path:
    path = directory / "s"
    path.mkdir()
    (path / "suite.ini").write_text(f"[default]\n{ini}")
    if cfg is not None:
        (path / "suite.cfg").write_text(cfg)
    for name in ("a", "b"):
        (path / f"{name}.test.lua").touch()
    return path


def test_keys(tmp_path: Path) -> None:
    """Keys are lists of words, flags and paths."""
    loaded = load_suite(
        suite(
            tmp_path,
            "core = tarantool\nscript = box.lua\ndisabled = a.test.lua\nlua_libs = lib/x.lua y.lua\n"
            "release_disabled = a.test.lua b.test.lua\nis_parallel = True\nuse_unix_sockets = False\nfragile = {}\n",
        )
    )
    assert loaded.script == loaded.path / "box.lua"
    assert loaded.disabled == {"a.test.lua"}
    assert loaded.release_disabled == {"a.test.lua", "b.test.lua"}
    assert loaded.lua_libs == (loaded.path / "lib/x.lua", loaded.path / "y.lua")
    assert (loaded.is_parallel, loaded.unix_sockets, loaded.unix_sockets_iproto) == (True, False, False)


def test_configurations(tmp_path: Path) -> None:
    """A configuration file has a test's own runs, `*` for the others, and `{}` for one run without parameters."""
    path = suite(tmp_path, "config = suite.cfg", '{"a.test.lua": {}, "*": {"x": {"engine": "x"}, "y": {}}}')
    cases = discover(path)
    assert [case.name for case in cases] == ["s/a.test.lua", "s/b.test.lua[x]", "s/b.test.lua[y]"]
    assert [case.params for case in cases] == [{}, {"engine": "x"}, {}]


def test_discovery(tmp_path: Path) -> None:
    """Tests are found from a script, a suite, and a directory of suites."""
    path = suite(tmp_path, "script = box.lua")
    assert [case.path.name for case in discover(path / "b.test.lua")] == ["b.test.lua"]
    assert [case.path.name for case in discover(tmp_path)] == ["a.test.lua", "b.test.lua"]
    with pytest.raises(FileNotFoundError):
        discover(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("ini", "cfg", "message"),
    [
        ("core = unittest", None, "unsupported core"),
        ("config = suite.cfg", "{", "suite.cfg"),
        ("config = suite.cfg", "[]", "expected test name"),
        ("no equals sign", None, "suite.ini"),
    ],
)
def test_broken_suites(tmp_path: Path, ini: str, cfg: str | None, message: str) -> None:
    """Errors of suite.ini and suite.cfg name the file."""
    path = suite(tmp_path, ini, cfg)
    with pytest.raises(SuiteError, match=message):
        load_suite(path)


def test_no_suite(tmp_path: Path) -> None:
    """A directory without suite.ini is no suite."""
    with pytest.raises(SuiteError, match=r"no suite\.ini"):
        load_suite(tmp_path)


def test_scripts_are_named_from_the_parent(tmp_path: Path) -> None:
    """A script is named `suite/name.lua` from the parent, or `name.lua` from the suite itself."""
    loaded = load_suite(suite(tmp_path, ""))
    assert loaded.find_script("s/a.test.lua") == loaded.find_script("a.test.lua") == loaded.path / "a.test.lua"
    with pytest.raises(SuiteError, match="no such script"):
        loaded.find_script("s/c.lua")
