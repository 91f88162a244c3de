"""Lines of the log: Tarantool's format, levels, destinations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from box.errors import BoxError
from box.log import BARE, Level, Log, log_level


def test_a_line_has_time_pid_fiber_level_and_text(tmp_path: Path) -> None:
    log = Log(lambda: 1617922620.123, lambda: (103, "interactive"))
    log.open(str(tmp_path / "n.log"))
    log.say(Level.WARN, "hello", where="a.lua:2")
    log.say(Level.VERBOSE, "not shown")
    log.info("bye")
    log.close()
    first, second = (tmp_path / "n.log").read_text().splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.123 \[\d+\] main/103/interactive a\.lua:2 W> hello", first)
    assert second.endswith("main/103/interactive I> bye")


def test_json_lines_hold_the_same(tmp_path: Path) -> None:
    log = Log(lambda: 1617922620.5, lambda: (1, "main"))
    log.format = "json"
    log.open("file:" + str(tmp_path / "n.log"))
    log.say(Level.ERROR, "bad", where="a.lua:7")
    log.close()
    record = json.loads((tmp_path / "n.log").read_text())
    assert record["level"] == "ERROR"
    assert (record["message"], record["file"], record["line"]) == ("bad", "a.lua", 7)
    assert (record["fiber_id"], record["fiber_name"], record["cord_name"]) == (1, "main", "main")


def test_a_function_of_c_has_no_line(tmp_path: Path) -> None:
    """A message from a console has the place of a function in C, whose line is -1."""
    log = Log(lambda: 1617922620.5)
    log.format = "json"
    log.open(str(tmp_path / "n.log"))
    log.say(Level.ERROR, "bad", where="[C]:-1")
    log.close()
    record = json.loads((tmp_path / "n.log").read_text())
    assert (record["file"], record["line"]) == ("[C]", -1)


@pytest.mark.parametrize("log_format", ["plain", "json", BARE])
def test_what_ends_the_process_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    """A fatal line goes to the log and to standard error, once if they are the same."""
    log = Log(lambda: 1617922620.5)
    log.format = log_format
    log.say(Level.FATAL, "first")
    log.open(str(tmp_path / "n.log"))
    log.error("second")
    log.say(Level.FATAL, "third")
    log.close()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "first" in lines[0]
    assert lines[1] == (tmp_path / "n.log").read_text().splitlines()[1]


def test_rotation_follows_the_path(tmp_path: Path) -> None:
    path = tmp_path / "n.log"
    log = Log(lambda: 0.0)
    log.open(str(path))
    log.info("old")
    path.rename(tmp_path / "n.log.1")
    log.rotate()
    log.info("new")
    log.close()
    assert [line.split("> ")[1] for line in path.read_text().splitlines()] == ["log file has been reopened", "new"]
    assert (tmp_path / "n.log.1").read_text().count("\n") == 1


def test_a_file_that_cannot_be_opened_again_is_not_given_up(tmp_path: Path) -> None:
    """If a log file cannot be reopened, the error goes to the old file and nothing is raised, as in Tarantool."""
    path = tmp_path / "n.log"
    log = Log(lambda: 0.0)
    log.open(str(path))
    path.rename(tmp_path / "n.log.1")
    path.mkdir()
    log.rotate()
    log.info("still here")
    log.close()
    first, second = (tmp_path / "n.log.1").read_text().splitlines()
    assert first.endswith(f"!> SystemError logrotate can't open {path}: Is a directory")
    assert second.endswith("I> still here")


def test_a_pipe_gets_the_lines(tmp_path: Path) -> None:
    log = Log(lambda: 0.0)
    log.open(f"|cat > {tmp_path / 'piped'}")
    assert log.pid is not None
    log.info("through a pipe")
    log.close()
    assert "through a pipe" in (tmp_path / "piped").read_text()


def test_a_path_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BoxError, match="can't open log file"):
        Log(lambda: 0.0).open(str(tmp_path / "missing" / "n.log"))


def test_levels_have_names() -> None:
    assert log_level("debug") == 7
    assert log_level(4) == 4
    with pytest.raises(BoxError, match="Incorrect value for option 'log_level'"):
        log_level("loud")


def test_before_the_configuration_the_text_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log(lambda: 0.0)
    log.format = BARE
    log.warn("early")
    assert capsys.readouterr().err == "early\n"
