"""The fixture `simulation` for pytest: `pytest_plugins = ["box.testing.pytest_plugin"]` in conftest.py.

Each test that asks for it runs once for each seed, `--simulation-seeds` of them; `--simulation-seed N` plays one again.
An exception that nobody caught in the simulation fails the test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from box.testing.simulation.simulation import Simulation


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lunabox")
    group.addoption("--simulation-seeds", type=int, default=5, metavar="N", help="run simulations with seeds 1 to N")
    group.addoption("--simulation-seed", type=int, metavar="N", help="run simulations with this seed only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "simulation" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--simulation-seed")
        seeds = range(1, metafunc.config.getoption("--simulation-seeds") + 1) if seed is None else [seed]
        metafunc.parametrize("simulation", seeds, indirect=True, ids="seed={}".format)


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """A simulation with one of the seeds."""
    with Simulation(request.param) as simulation:
        yield simulation
        assert not simulation.errors, "\n".join(simulation.errors)
