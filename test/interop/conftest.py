"""One Java and one Spark session for all tests that need one, because they take longer to start than most tests run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def java_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of `gateway`'s Java."""
    return tmp_path_factory.mktemp("java")


@pytest.fixture(scope="session")
def gateway(java_directory: Path) -> Iterator[Any]:
    """Spark's Java, for the sessions of several processes one after another, and at last for that of this process."""
    from pyspark.conf import SparkConf
    from pyspark.java_gateway import launch_gateway

    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = launch_gateway(SparkConf().set("spark.driver.memory", "2g"), {"cwd": java_directory})
    yield found
    found.shutdown()
    found.proc.stdin.close()
    found.proc.wait(60)


@pytest.fixture
def directory_with_java(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java_directory: Path
) -> Iterator[Path]:
    """An empty directory where child processes use the Java that runs, so that they need not wait for one to start.

    They start their own if this process has a session, because Java can have only one.
    """
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        yield tmp_path
        return
    gateway = request.getfixturevalue("gateway")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", str(gateway.gateway_parameters.port))
    monkeypatch.setenv("PYSPARK_GATEWAY_SECRET", gateway.gateway_parameters.auth_token)
    yield java_directory
    left = gateway.jvm.SparkSession.getDefaultSession()
    if left.isDefined():  # that of a child that failed
        left.get().stop()
        gateway.jvm.SparkSession.clearDefaultSession()
    for path in java_directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture(scope="session")
def spark(gateway: Any) -> Iterator[Any]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._ensure_initialized(gateway=gateway)
    builder = SparkSession.builder.master("local[2,4]").appName("test").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.log.level", "ERROR").getOrCreate()
    yield session
    session.stop()
