"""An export never deletes the files of a node."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from box import BoxError, Node
from box.spark import export
from box.spark.safe_output import check_output, check_page


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the directory of a node with one space, and of another one whose name is no name of a directory."""

    async def make() -> None:
        async with Node(str(tmp_path / "data")) as node:
            space = await node.schema.create_space("goods", format=[("id", "unsigned")])
            await space.create_index("pk")
            await space.insert([1])
            await (await node.schema.create_space("..", format=[("id", "unsigned")])).create_index("pk")
            await node.eval("box.snapshot()")

    asyncio.run(make())
    return tmp_path / "data"


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("place", ["{}", "{}/", "file://{}", "{}/..", "{}/{{}}.snap"])
def test_the_directory_of_a_node_is_no_output(
    directory: Path, place: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the source, nor a directory around it, nor a snapshot is overwritten; Spark does not even start."""
    snapshot = max(path.stem for path in directory.glob("*.snap"))
    before, output = files(directory.parent), place.format(directory).format(snapshot)
    assert export.main([str(directory), "goods", "--to", kind, output, "--overwrite"]) == 1
    assert "holds files of a node, such as" in capsys.readouterr().err
    assert files(directory.parent) == before


def test_a_directory_below_is_an_output(directory: Path) -> None:
    """A directory inside that of the node may be written and overwritten, because no node file is in it."""
    (directory / "out").mkdir()
    (directory / "out" / "old").touch()
    check_output(str(directory / "out"), [str(directory)], overwrite=True)
    with pytest.raises(BoxError, match="already exists: take another one, or --overwrite"):
        check_output(str(directory / "out"), [str(directory)], overwrite=False)


def test_the_files_of_other_nodes_are_safe(directory: Path, tmp_path: Path) -> None:
    """An output is searched to any depth; links are removed alone, so that what they name is safe."""
    (tmp_path / "other" / "deep").mkdir(parents=True)
    (tmp_path / "other" / "deep" / f"{5:020d}.xlog").touch()
    with pytest.raises(BoxError, match="holds files of a node"):
        check_output(str(tmp_path / "other"), [str(directory)], overwrite=True)
    (tmp_path / "links").mkdir()
    os.symlink(directory, tmp_path / "links" / "data")
    check_output(str(tmp_path / "links"), [str(directory)], overwrite=True)


def test_stores_are_compared_by_their_urls() -> None:
    """An output in a store must not be a source or contain one."""
    for output in ("s3://bucket/data", "s3://bucket/data/", "s3://bucket"):
        with pytest.raises(BoxError, match="holds files of a node"):
            check_output(output, ["s3://bucket/data"], overwrite=True)
    check_output("s3://bucket/dat", ["s3://bucket/data"], overwrite=True)
    check_output("s3://bucket/data/out", ["s3://bucket/data"], overwrite=True)


def test_a_space_whose_name_leaves_the_output(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --all a space named `..` is refused: its directory would be the one around the output."""
    (tmp_path / "precious").touch()
    command = [str(directory), "--all", "--to", "parquet", str(tmp_path / "out"), "--overwrite"]
    assert export.main(command) == 1
    assert "space '..' cannot name a directory: export it without --all" in capsys.readouterr().err
    assert (tmp_path / "precious").exists()


def test_a_report_is_no_snapshot(directory: Path) -> None:
    """The page of a report replaces neither a snapshot nor a log."""
    with pytest.raises(BoxError, match="is a file of a node"):
        check_page(str(next(directory.glob("*.snap"))))
    check_page(str(directory / "report.html"))


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused before Spark starts."""
    (tmp_path / "file").touch()
    with pytest.raises(BoxError, match=f"path {tmp_path}/file/a/b cannot be made: {tmp_path}/file is no directory"):
        check_output(f"{tmp_path}/file/a/b", [], overwrite=False)
    with pytest.raises(BoxError, match=f"{tmp_path} is a directory: name a file"):
        check_page(str(tmp_path))
    with pytest.raises(BoxError, match=f"{tmp_path}/no is no directory"):
        check_page(f"{tmp_path}/no/page.html")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(BoxError, match=f"path {tmp_path}/a/b cannot be made: {tmp_path} is not writable"):
        check_output(f"{tmp_path}/a/b", [], overwrite=False)
    with pytest.raises(BoxError, match=r"page\.html cannot be written: no permission"):
        check_page(f"{tmp_path}/page.html")


def test_a_link_that_leads_nowhere_is_an_output_that_exists(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BoxError, match="already exists"):
        check_output(f"{tmp_path}/link", [], overwrite=False)
    check_output(f"{tmp_path}/link", [], overwrite=True)


def test_a_page_that_is_there_has_to_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    page.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(page))
    with pytest.raises(BoxError, match="no permission"):
        check_page(str(page))
    check_page(str(tmp_path / "other.html"))
