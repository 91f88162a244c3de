"""The documentation: its examples do what they say, its links lead somewhere, its man pages are complete."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from test.unit.docs.walkthrough import ROOT, walk

DOCS = ROOT / "docs"
COMMANDS = ("lunabox", "lunabox-test", "lunabox-export", "lunabox-cat", "lunabox-sim")


@pytest.mark.parametrize(
    "page", ["tutorials/node.md", "tutorials/suites.md", "how-to/test-an-application.md", "how-to/take-and-expire.md"]
)
def test_examples_do_what_the_page_says(page: str, tmp_path: Path) -> None:
    assert walk(DOCS / page, tmp_path) >= 2


@pytest.mark.spark
def test_examples_of_the_exporter_do_what_the_page_says(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    assert walk(DOCS / "tutorials/export.md", tmp_path) == 3


def test_a_command_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\ntwo\n```\n")
    with pytest.raises(AssertionError, match="expected:\ntwo"):
        walk(page, tmp_path)


def test_links_lead_to_pages() -> None:
    missing = [
        f"{page.relative_to(DOCS)}: {link}"
        for page in DOCS.rglob("*.md")
        for link in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert not missing


def options_of_help(command: str) -> set[str]:
    modules = {
        "lunabox": "console",
        "lunabox-test": "console.suite.cli",
        "lunabox-export": "box.spark.export",
        "lunabox-cat": "box.spark.cat",
        "lunabox-sim": "box.testing.simulation.command",
    }
    source = f"import runpy, sys; sys.argv[1:] = ['--help']; runpy.run_module({modules[command]!r}, None, '__main__')"
    run = [sys.executable, "-c", source]
    text = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT).stdout
    return set(re.findall(r"(?<![\w-])(--[a-z][\w-]+)", text)) - {"--help"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_reference_names_every_option(command: str) -> None:
    if command in ("lunabox-export", "lunabox-cat"):
        pytest.importorskip("pyarrow")
    page = (DOCS / "reference" / f"{command}.md").read_text()
    missing = {option for option in options_of_help(command) if option not in page}
    assert not missing


def test_man_pages_come_from_the_reference(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(DOCS / "hooks" / "man.py"), str(tmp_path)], check=True, timeout=60)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{command}.1" for command in COMMANDS)
    assert not any("](" in path.read_text() for path in tmp_path.iterdir()), "links are for the site"
    text = (tmp_path / "lunabox-test.1").read_text()
    assert text.startswith('.TH "LUNABOX-TEST" "1"')
    assert ".SH OPTIONS" in text
    assert ".TP\n\\fB\\-\\-junit FILE\\fR\nwrite a report as JUnit XML." in text


@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="the extra `docs` is not installed")
def test_the_site_can_be_built(tmp_path: Path) -> None:
    """Strictly: a link that leads nowhere, or a class that is not there, is an error."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    reference = (tmp_path / "site" / "reference" / "python" / "index.html").read_text()
    assert "wait_leader" in reference
    assert (tmp_path / "site" / "simulation" / "index.html").exists()
