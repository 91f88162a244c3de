"""The documentation: examples print what they show, man pages are complete, and the site can be built."""

from __future__ import annotations

import html
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from test.unit.docs.walkthrough import ROOT, walk

DOCS = ROOT / "docs"
COMMANDS = ("lunabox", "lunabox-test", "lunabox-export", "lunabox-cat", "lunabox-sim")
NEEDS_SPARK = {"tutorials/export.md"}
"""Pages of test_examples_of_spark.py."""
COLUMNS = 92
"""What fits into a block of code of the site between both columns of navigation: see stylesheets/site.css."""


def pages_with_examples() -> list[str]:
    """Return the pages that have a block of commands."""
    return sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if "```console\n" in page.read_text())


@pytest.mark.parametrize("page", [page for page in pages_with_examples() if page not in NEEDS_SPARK])
def test_examples_do_what_the_page_says(page: str, tmp_path: Path) -> None:
    assert walk(DOCS / page, tmp_path) >= 1


def test_lua_examples_of_the_sql_page_run(tmp_path: Path) -> None:
    """The blocks of Lua on the page about SQL run in their order, as one script."""
    blocks = re.findall(r"^```lua\n(.*?)^```$", (DOCS / "reference" / "sql.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 2
    show = "print(require('json').encode({cheap, box.execute('SELECT cost(price, 3) FROM goods').rows})) os.exit()\n"
    (tmp_path / "page.lua").write_text("\n".join(["box.cfg{log = 'log'}", *blocks, show]))
    command = [sys.executable, "-m", "console", "page.lua"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == '[[[1,"pear",0.5]],[[1.5]]]\n', done.stderr


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_commands_of_an_installation_are_there(page: str) -> None:
    text = (ROOT / page).read_text()
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^make (\w+)", text, re.MULTILINE))
    assert {"run", "test"} <= targets
    assert not {target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {extra for names in re.findall(r"pip install '\.\[([\w,]+)\]'", text) for extra in names.split(",")}
    assert extras
    assert extras <= project["optional-dependencies"].keys()


def test_every_extra_is_described() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = (DOCS / "install.md").read_text()
    assert not [extra for extra in extras if f"`{extra}`" not in table]


def test_the_readme_is_short() -> None:
    """The README has at most 200 lines: details belong to the site."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


def test_nobody_is_sent_to_an_index() -> None:
    """No page tells readers to install Lunabox from a package index."""
    files = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    assert not [path for path in files if re.search(r"(pip|pipx) install '?lunabox", path.read_text())]


def test_a_command_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\ntwo\n```\n")
    with pytest.raises(AssertionError, match="expected:\ntwo"):
        walk(page, tmp_path)


def test_man_pages_come_from_the_reference(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(DOCS / "hooks" / "man.py"), str(tmp_path)], check=True, timeout=60, cwd=ROOT)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{command}.1" for command in COMMANDS)
    texts = [path.read_text() for path in tmp_path.iterdir()]
    assert not any("](" in text or "<!--" in text for text in texts), "links and marks are for the site"
    text = (tmp_path / "lunabox-test.1").read_text()
    assert text.startswith('.TH "LUNABOX-TEST" "1"')
    assert ".SH OPTIONS" in text
    assert ".TP\n\\fB\\-\\-junit FILE\\fR\nWrite a report as JUnit XML." in text


def test_tables_need_only_what_make_docs_installs() -> None:
    """The reference tables need only the extra `docs`, which has neither pyarrow nor numpy nor Spark."""
    program = """
import sys
from pathlib import Path
sys.modules.update(pyarrow=None, numpy=None, pyspark=None)
sys.path.insert(0, "docs/hooks")
import reference_tables
for page in Path("docs").rglob("*.md"):
    reference_tables.expand(page.read_text())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a dead link, or a class that does not exist, is an error."""
    if importlib.util.find_spec("material") is None:
        pytest.skip("the extra `docs` is not installed")
    built = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(built)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return built


def test_the_site_can_be_built(site: Path) -> None:
    """Generated references are on their pages."""
    reference = site / "reference"
    assert "box.Node" in (reference / "python" / "nodes" / "index.html").read_text()
    assert "wait_leader" in (reference / "python" / "testing" / "index.html").read_text()
    assert "replication_synchro_quorum" in (reference / "cfg" / "index.html").read_text()
    assert (site / "simulation" / "index.html").exists()


def wide_lines(page: str) -> list[str]:
    """Return the lines of a page's code blocks that a screen of 1280 pixels cuts off."""
    blocks = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    lines = [line for block in blocks for line in html.unescape(re.sub(r"<[^>]+>", "", block)).splitlines()]
    return [line for line in lines if len(line) > COLUMNS]


def test_code_fits_beside_the_navigation(site: Path) -> None:
    """No line of code is wider than its box on a screen of 1280 pixels: readers need not scroll to its end."""
    pages = {page.parent.relative_to(site): wide_lines(page.read_text()) for page in site.rglob("index.html")}
    assert len(pages) > 40
    assert {page: lines for page, lines in pages.items() if lines} == {}


def test_a_wide_line_is_noticed() -> None:
    row = f"<span>{'x' * (COLUMNS - 1)}</span>"
    assert wide_lines(f"<pre><code>{row}&lt;</code></pre>") == []
    assert wide_lines(f"<pre><code>{row}&lt;y\n</code></pre>") == ["x" * (COLUMNS - 1) + "<y"]
