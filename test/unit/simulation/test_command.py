"""The command `lunabox-sim`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from box.testing.simulation.command import main
from box.testing.simulation.run import Scenario


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--workload", "chess"], "invalid choice: 'chess'"),
        (["--faults", "kill,flood"], "unknown fault 'flood'"),
        (["--seed", "9-1"], "a number or a range such as 1-100 is expected"),
        (["--nodes", "0"], "1 to 31 nodes are possible"),
        (["--time", "soon"], "a number of seconds is expected"),
        (["--rate", "0"], "a number of calls a second is expected"),
        (["--replay", "/nonexistent/file"], "No such file or directory"),
        (["--replay", __file__], "not a scenario"),
    ],
)
def test_bad_input_is_usage(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert text in capsys.readouterr().err


def test_a_file_is_played_exactly_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = Scenario(4, workload="set", seconds=3)
    path, drawing = tmp_path / "run.json", tmp_path / "run.svg"
    path.write_text(scenario.to_json())
    assert main(["--replay", str(path), "--diagram", str(drawing)]) == 0
    assert main(["--seed", "4", "--workload", "set", "--time", "3"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.rpartition("trace ")[2] == second.rpartition("trace ")[2]
    assert drawing.read_text().startswith("<svg")
    assert main(["--nodes", "2", "--workload", "token", "--time", "2", "--fetch-once"]) == 0


def test_clients_make_as_many_calls_as_the_rate_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Clients make at most as many calls as the rate allows on average, and the file of a run keeps the rate."""
    arguments = ["--workload", "set", "--time", "4", "--faults", "none"]
    main([*arguments, "--rate", "5"])
    main(arguments)
    slow, quick = (int(line.split("faults, ")[1].split()[0]) for line in capsys.readouterr().out.splitlines())
    assert 10 < slow < 25 < 80 < quick
    assert Scenario.from_json(Scenario(1, rate=5.0).to_json()).rate == 5.0
    with pytest.raises(ValueError, match="not a scenario"):
        Scenario.from_json(Scenario(1, rate=-5.0).to_json())


def test_a_run_that_hangs_ends_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that hangs ends with exit code 1, and its scenario is kept in a file."""
    arguments = ["--workload", "set", "--time", "5000", "--deadline", "0.5", "--no-shrink", "--save", str(tmp_path)]
    assert main(arguments) == 1
    assert "the time for this run is over, and these wait" in capsys.readouterr().out
    assert Scenario.from_json((tmp_path / "set-1.json").read_text()).seconds == 5000


def test_runs_at_the_same_time_have_the_same_outcomes(capsys: pytest.CaptureFixture[str]) -> None:
    """Concurrent runs have the traces of single ones, in the order of seeds; a run that fails is shortened, too."""
    arguments = ["--seed", "3-4", "--workload", "set", "--time", "2", "--faults", "network"]
    assert main(arguments) == 0
    assert main([*arguments, "--jobs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("trace ")[2] for line in lines[:3]] == [line.rpartition("trace ")[2] for line in lines[3:]]
    assert main([*arguments, "--jobs", "2", "--deadline", "0.1", "--no-shrink"]) == 1
    assert "2 runs, 2 failed" in capsys.readouterr().out
    assert main([*arguments, "--deadline", "0.1", "--no-shrink", "--fail-fast"]) == 1
    assert "1 runs, 1 failed" in capsys.readouterr().out


def test_a_workload_that_writes_everywhere_has_no_elections(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--workload", "async", "--elections", "candidate"])
    assert end.value.code == 2
    assert "which elections forbid" in capsys.readouterr().err


def _start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "box.testing.simulation.command", "--time", "1", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_reader_that_has_enough_ends_it_without_a_word(jobs: str) -> None:
    with _start("--seed", "1-1000", "--jobs", jobs) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("seed 1 ")
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (141, "")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_it_without_a_word(jobs: str) -> None:
    with _start("--seed", "1-1000", "--jobs", jobs) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("seed 1 ")
        os.killpg(process.pid, signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (-signal.SIGINT, "")
