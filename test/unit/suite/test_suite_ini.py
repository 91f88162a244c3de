"""suite.ini, suite.cfg, and the tests that they make of a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.suite.case import Settings, discover, skip_reason
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


def test_comments(tmp_path: Path) -> None:
    """In suite.ini a comment begins with `;`, in a configuration file with `//` at the begin of a line."""
    ini = (
        "script = box.lua ; the server\nconfig = suite.cfg;\nuse_unix_sockets = True ; short\n"
        "disabled = a.test.lua:x ; known\n    b.test.lua ; too slow\n"
    )
    cfg = '{\n  // "a.test.lua": {},\n"*": {"x": {}, "y": {"url": "http://y"}}}'
    path = suite(tmp_path, ini.replace("suite.cfg;", "suite.cfg"), cfg)
    loaded = load_suite(path)
    assert (loaded.script, loaded.unix_sockets) == (path / "box.lua", True)
    assert loaded.disabled == {"a.test.lua:x", "b.test.lua"}
    assert loaded.configurations == {"*": {"x": {}, "y": {"url": "http://y"}}}
    reasons = [skip_reason(case, Settings()) for case in discover(path)]
    assert reasons == ["disabled", None, "disabled", "disabled"]


def test_suites_of_programs_have_no_tests(tmp_path: Path) -> None:
    """A suite of compiled programs is passed over, and the others run."""
    suite(tmp_path, "core = unittest")
    assert discover(tmp_path) == []


def test_condition(tmp_path: Path) -> None:
    """A condition knows the test, its parameters and the server."""
    path = suite(tmp_path, "script = box.lua")
    (path / "a.skipcond").write_text("self.skip = server.debug and self.name.endswith('a.test.lua') and 1")
    (path / "b.skipcond").write_text("self.skip = self.conf_name is not None or self.args.long")
    cases = discover(path)
    assert [skip_reason(case, Settings()) for case in cases] == ["skipped by a.skipcond", None]
    assert [skip_reason(case, Settings(debug=False)) for case in cases] == [None, None]


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
        ("core = other", None, "unsupported core"),
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
