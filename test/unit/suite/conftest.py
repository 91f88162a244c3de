"""The suites below data/ are tests themselves."""

from console.suite.plugin import pytest_collect_file

__all__ = ["pytest_collect_file"]
