"""The examples of the page about exports print what it shows, with the Java of the other tests of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.unit.docs.walkthrough import ROOT, walk

from .spark_files import NEEDS_SPARK

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

pytestmark = NEEDS_SPARK


@pytest.mark.slow
def test_examples_of_the_page_print_what_it_shows(directory_with_java: Path) -> None:
    assert walk(ROOT / "docs" / "tutorials" / "export.md", directory_with_java) >= 5
