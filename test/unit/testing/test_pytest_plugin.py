"""The fixtures of the pytest plugin, in a pytest run of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

TESTS = """
import asyncio

def test_a_node_without_a_loop(box_node):
    space = box_node.schema.create_space("s", format=["id", "name"])
    space.create_index("pk", parts=[[1, "unsigned"]])
    assert space.insert([1, "pear"]).name == "pear"

def test_another_test_has_another_node(box_node):
    assert "s" not in box_node.space

def test_a_node_for_clients_of_today(box_server):
    import tarantool
    host, _, port = box_server.info["listen"].rpartition(":")
    connection = tarantool.Connection(host, int(port))
    assert connection.version_id == 2 << 16 | 11 << 8
    assert list(connection.eval("box.schema.create_space('s') return box.cfg.memtx_use_mvcc_engine")) == [True]
    connection.close()
    assert "s" in box_server.space

def test_a_cluster(box_cluster, tmp_path):
    async def test():
        async with box_cluster(2) as c:
            await (await c.leader.schema.create_space("s")).create_index("pk")
            await c.wait_synced()
            assert "s" in c[1].space
    asyncio.run(test())
    assert (tmp_path / "cluster" / "node2").is_dir()

def test_a_simulation(simulation):
    assert simulation.seed == 3
"""


def run(directory: Path, *arguments: str, tests: str = TESTS, code: int = 0) -> str:
    (directory / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "box.testing.pytest_plugin"]
    done = subprocess.run(
        [*command, "--rootdir", str(directory), *arguments, str(directory)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout[-4000:]
    return done.stdout


def test_fixtures_work_where_nothing_is_configured(tmp_path: Path) -> None:
    assert "5 passed" in run(tmp_path, "--simulation-seed", "3")


ASYNC_TESTS = """
import pytest

@pytest.mark.MARK
async def test_a_node_on_the_loop_of_the_test(async_box_node):
    assert await async_box_node.eval("return 1") == 1
    await (await async_box_node.schema.create_space("s")).create_index("pk")

@pytest.mark.MARK
async def test_another_test_has_another_node(async_box_node):
    assert "s" not in async_box_node.space
"""
ANYIO = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


@pytest.mark.parametrize(("module", "plugin"), [("pytest_asyncio", "asyncio"), ("anyio", "anyio")])
def test_asynchronous_tests_have_a_fixture(tmp_path: Path, module: str, plugin: str) -> None:
    pytest.importorskip(module)
    tests = ASYNC_TESTS.replace("MARK", plugin) + (ANYIO if plugin == "anyio" else "")
    loaded = "pytest_asyncio.plugin" if plugin == "asyncio" else "anyio.pytest_plugin"
    assert "2 passed" in run(tmp_path, "-p", loaded, "--disable-plugin-autoload", tests=tests)


def test_an_asynchronous_fixture_without_a_plugin_for_it_says_so(tmp_path: Path) -> None:
    text = "def test_it(async_box_node):\n    pass\n"
    told = run(tmp_path, "--disable-plugin-autoload", tests=text, code=1)
    assert "async_box_node needs pytest-asyncio, or anyio" in told


def test_a_conftest_may_ask_for_the_plugin_as_well(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["box.testing.pytest_plugin"]\n')
    assert "5 passed" in run(tmp_path, "--simulation-seed", "3")


def test_pytest_finds_the_plugin_by_itself() -> None:
    found = entry_points(group="pytest11")
    if "box.testing.pytest_plugin" not in found.names:
        pytest.skip("the package was installed before it had the entry point")
    assert found["box.testing.pytest_plugin"].value == "box.testing.pytest_plugin"


def test_the_plugin_loads_no_node_at_the_start_of_pytest() -> None:
    names = "[name for name in sys.modules if name.startswith(('lupa', 'box.instance.node', 'box.embed'))]"
    source = f"import sys, box.testing.pytest_plugin; print({names})"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
