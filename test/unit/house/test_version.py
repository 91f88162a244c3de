"""All places that name the version of the package agree."""

from __future__ import annotations

import tomllib
from pathlib import Path

from box.version import VERSION

ROOT = Path(__file__).parents[3]


def test_metadata_and_pages_have_the_version_of_the_package() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION
    assert f"Lunabox {VERSION} (Tarantool" in (ROOT / "README.md").read_text()
    assert f"lunabox-{VERSION}-py3-none-any.whl" in (ROOT / "docs" / "install.md").read_text()
