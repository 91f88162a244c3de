"""`lunabox top` shows samples of a replica set as a live view, text, JSON and SVG."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.commands.top import parser
from console.top.drawing import picture
from console.top.overview import Choice, duration, overview, size
from console.top.sampling import ClusterSample, InstanceSample, edges_of
from test.support import refusing_address, wait_until
from test.unit.console.emulator import Emulator

LUNABOX = [sys.executable, "-m", "console"]
ROOT = str(Path(__file__).parents[3])
SCRIPT = """
    box.cfg{{
        listen = 'unix/:{0}/{1}', log = '{1}.log', work_dir = '{1}.d', replication = {{'unix/:{0}/a', 'unix/:{0}/b'}},
        replication_connect_quorum = {2}, replication_connect_timeout = 2, replication_timeout = 0.5, read_only = {3},
    }}
    if not box.info.ro then
        box.once('x', function()
            box.schema.user.grant('guest', 'super')
            box.schema.space.create('goods'):create_index('pk')
            for i = 1, 100 do box.space.goods:insert{{i}} end
        end)
    end
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[list[str]]:
    """Start two members that replicate from each other, and return their addresses."""
    directory = Path(tempfile.mkdtemp(prefix="lb-"))
    processes = []
    for name, quorum, is_ro in (("a", 0, "false"), ("b", 1, "true")):
        (directory / f"{name}.d").mkdir()
        (directory / f"{name}.lua").write_text(SCRIPT.format(directory, name, quorum, is_ro))
        processes.append(
            subprocess.Popen(
                [*LUNABOX, f"{name}.lua"],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": ROOT},
                stderr=subprocess.DEVNULL,
            )
        )
        wait_until(lambda name=name: "event loop" in _log(directory, name), f"{name} runs", 60)  # type: ignore[misc]
    addresses = [f"unix/:{directory}/{name}" for name in "ab"]
    wait_until(lambda: _is_meshed(addresses), "each follows the other", 90)
    yield addresses
    for process in processes:
        process.kill()
        process.wait()
    shutil.rmtree(directory)


def _is_meshed(addresses: list[str]) -> bool:
    edges = json.loads(run("--json", *addresses).stdout)["edges"]
    return [edge["upstream"] for edge in edges] == ["follow", "follow"]


def _log(directory: Path, name: str) -> str:
    paths = [path for path in (directory / f"{name}.log", directory / f"{name}.d" / f"{name}.log") if path.exists()]
    return paths[0].read_text() if paths else ""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LUNABOX, "top", *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )


def test_once(cluster: list[str]) -> None:
    """With --once it prints instances, both directions of replication, spaces and fibers."""
    done = run("--once", *cluster)
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("2 of 2 instances", "replication\n", "goods", "100", "follow", "rw", "ro"):
        assert text in done.stdout


def test_json(cluster: list[str]) -> None:
    """With --json it prints everything."""
    shown = json.loads(run("--json", *cluster).stdout)
    assert [each["id"] for each in shown["instances"]] == [1, 2]
    assert {(edge["source"], edge["target"]) for edge in shown["edges"]} == {(1, 2), (2, 1)}
    assert all(edge["upstream"] == "follow" for edge in shown["edges"])
    goods = next(space for space in shown["instances"][0]["spaces"] if space["name"] == "goods")
    assert goods["rows"] == 100


def test_times_of_fibers(cluster: list[str]) -> None:
    """Times of fibers are measured while it runs, if asked for, and not afterwards, unless they were
    measured before.
    """
    assert "share" not in run("--once", *cluster).stdout
    for _ in range(2):
        shown = json.loads(run("--json", "--fiber-times", "--interval", "0.2", *cluster).stdout)
        for each in shown["instances"]:
            # Fibers that have ended since had their share, too.
            assert 80 < sum(fiber.get("share") or 0 for fiber in each["fibers"]) < 101
            assert {"sched"} < {fiber["name"] for fiber in each["fibers"]}
            assert "began_timing" not in each
    text = run("--once", "--fiber-times", "--interval", "0.2", *cluster).stdout
    assert "share" in text
    assert " %" in text

    def ask(statement: str) -> str:
        command = [*LUNABOX, "connect", cluster[0], "-e", statement]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT).stdout

    assert "false" in ask("(pcall(require('fiber').top))")
    ask("require('fiber').top_enable()")
    run("--once", "--fiber-times", "--interval", "0.2", cluster[0])
    assert "true" in ask("(pcall(require('fiber').top))")
    ask("require('fiber').top_disable()")


def test_svg(cluster: list[str], tmp_path: Path) -> None:
    """With --svg it writes XML with a box for each instance and an arrow for each direction."""
    path = tmp_path / "set.svg"
    assert run("--svg", str(path), *cluster).returncode == 0
    root = xml.etree.ElementTree.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}line")) == 2
    assert len(root.findall(f"{space}rect")) == 3
    assert run("--svg", "/nowhere/x.svg", *cluster).returncode == 1


def test_an_instance_that_is_not_there(cluster: list[str]) -> None:
    """An unreachable instance is one line; the exit code is 3 only if none answers."""
    with refusing_address() as address:
        done = run("--once", cluster[0], address)
        alone = run("--once", address)
    assert (done.returncode, "1 of 2 instances" in done.stdout) == (0, True)
    assert len(done.stderr.splitlines()) == 1
    assert alone.returncode == 3


@pytest.mark.parametrize(
    "arguments", [[], ["::"], ["localhost:99999"], ["--interval", "0", "3301"], ["--interval", "x", "3301"], ["3301"]]
)
def test_wrong_command_lines(arguments: list[str]) -> None:
    """Wrong command lines end with 2, and so does a live view without a terminal."""
    done = run(*arguments)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)
    assert "_seconds" not in done.stderr


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (20, 10)])
def test_live_view(cluster: list[str], tmp_path: Path, size: tuple[int, int]) -> None:
    """The live view sorts, filters, pauses and ends, and leaves the terminal as it was."""
    terminal = Emulator(tmp_path, [*LUNABOX, "top", "--interval", "0.3", *cluster], columns=size[0], lines=size[1])
    try:
        terminal.wait("lunabox top")
        if size[0] > 20:
            terminal.wait("instances\n")
            terminal.wait("s spaces by rows  f fibers by time  / filter  space hold  q quit  PgDn")
            terminal.type("s")
            terminal.wait("s spaces by bytes")
            terminal.type("f")
            terminal.wait("f fibers by switches  / filter  space hold  q quit  PgDn")
            terminal.type("/goods\r")
            terminal.wait("filter 'goods'")
            terminal.type(" ")
            terminal.wait("held")
            terminal.type("+\x1b[6~\x1b[5~")
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.raw.endswith(b"\x1b[?1049l") or b"\x1b[?1049l" in terminal.raw
    finally:
        terminal.close()


# -- the parts -------------------------------------------------------------------------------------------------


def sample(**state: object) -> InstanceSample:
    return InstanceSample("host:1", 1.0, {"spaces": [], "fibers": [], "replication": [], "vclock": {}, **state})


def test_edges_join_what_both_sides_tell() -> None:
    """A link has the lag from its target, and the number of missing rows from its source."""
    source = sample(
        id=1,
        vclock={"1": 10, "2": 5, "0": 99},
        replication=[{"id": 2, "downstream": {"status": "follow", "vclock": {"1": 7, "2": 5}}}],
    )
    target = sample(id=2, replication=[{"id": 1, "upstream": {"status": "follow", "lag": 0.5, "idle": 1.0}}])
    (edge,) = edges_of([source, target])
    assert (edge.source, edge.target, edge.lag, edge.behind, edge.is_healthy) == (1, 2, 0.5, 3, True)


def test_rates_come_from_two_samples() -> None:
    """Rates of rows come from two samples, sorted as chosen."""
    before = ClusterSample((sample(id=1, spaces=[{"name": "a", "rows": 10, "bytes": 0}]),), 1.0)
    later = InstanceSample("host:1", 3.0, sample(id=1, spaces=[{"name": "a", "rows": 30, "bytes": 5}]).state)
    assert "+10.0" in overview(ClusterSample((later,), 3.0), before, Choice())


def test_a_picture_escapes_what_instances_say() -> None:
    broken = InstanceSample("<&>", 1.0, error="a < b & c")
    xml.etree.ElementTree.fromstring(picture(ClusterSample((broken,), 1.0)))


def test_figures_for_people() -> None:
    assert [size(count) for count in (0, 999, 1500, 2_000_000)] == ["0 B", "999 B", "1.5 kB", "2.0 MB"]
    assert [duration(seconds) for seconds in (5, 120, 7200, 200_000)] == ["5 s", "2 min", "2 h", "2 d"]


@pytest.mark.parametrize(("text", "is_right"), [("0.1", True), ("0.05", False), ("3600", True), ("nan", False)])
def test_the_interval_has_bounds(text: str, is_right: bool, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--interval", text, "x:1"]
    if is_right:
        assert parser().parse_args(arguments).interval == float(text)
        return
    with pytest.raises(SystemExit):
        parser().parse_args(arguments)
    assert f"{text}: from 0.1 to 3600 seconds" in capsys.readouterr().err
