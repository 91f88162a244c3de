"""The HTML report opens in a browser without a network, draws its figures and causes no console messages."""

from __future__ import annotations

import shutil
import subprocess
from functools import reduce
from pathlib import Path

import pytest

from box.spark.report.directory_profile import DirectoryProfile
from box.spark.report.profile_pass import pieces_of, profile
from box.spark.report.report_page import page

from .spark_files import FORMAT, make_snapshot

pytest.importorskip("plotly", reason="the extra 'report' is not installed")

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or ""
OPTIONS = "--headless --no-sandbox --disable-gpu --enable-logging=stderr --v=0 --virtual-time-budget=5000".split()


@pytest.mark.slow
@pytest.mark.skipif(not BROWSER, reason="no Chromium on PATH")
def test_a_browser_shows_the_report_without_a_network(tmp_path: Path) -> None:
    make_snapshot(
        tmp_path / "data",
        f"""
        local s = box.schema.space.create('goods', {{format = {FORMAT}}})
        s:create_index('pk')
        for i = 1, 1000 do s:insert{{i, 'name ' .. i % 9, i + 0.25}} end
        """,
    )
    pieces, definitions = pieces_of(str(tmp_path / "data"))
    found = reduce(DirectoryProfile.join, [profile([piece], definitions) for piece in pieces], DirectoryProfile())
    (tmp_path / "report.html").write_text(page("data", found))
    command = [
        BROWSER,
        *OPTIONS,
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--dump-dom",
        f"--user-data-dir={tmp_path}/b",
    ]
    done = subprocess.run(
        [*command, f"file://{tmp_path}/report.html"], capture_output=True, text=True, timeout=120, check=True
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    assert done.stdout.count('class="main-svg"') >= 6, "figures are not drawn"
    assert "goods: 1,000 rows" in done.stdout
