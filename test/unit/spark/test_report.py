"""The HTML report: figures from a profile that is joined from parts, on a page without a network."""

from __future__ import annotations

import asyncio
import json
import random
import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from box import Node
from box.spark.report.directory_profile import DirectoryProfile
from box.spark.report.profile_pass import pieces_of, profile
from box.spark.report.report_page import _table, page
from box.spark.report.sketches import DistinctCount, Largest, Sample

GOODS = """
s = box.schema.space.create('goods', {format = {
    {'id', 'unsigned'}, {'name', 'string'}, {'price', 'double', is_nullable = true}, {'tags', 'array'}}})
s:create_index('pk')
for i = 1, 2000 do s:insert{i, 'name ' .. i % 50, i % 10 ~= 0 and i + 0.25 or box.NULL, {i}} end
s:replace{1, string.rep('<b>long</b>', 100), 1.5, {}}
box.schema.space.create('</script><empty>'):create_index('pk')
box.snapshot()
for i = 1, 30 do s:delete(i) end
s:update(50, {{'=', 2, 'new'}})
"""


def make(directory: Path) -> DirectoryProfile:
    async def main() -> None:
        async with Node(directory, log_level=0) as node:
            await node.eval(GOODS)

    asyncio.run(main())
    pieces, definitions = pieces_of(str(directory))
    return reduce(DirectoryProfile.join, [profile([piece], definitions) for piece in pieces], DirectoryProfile())


def test_a_profile_tells_what_is_in_a_directory(tmp_path: Path) -> None:
    found = make(tmp_path)
    goods = found.spaces["goods"]
    assert (goods.rows, goods.misfits) == (2000, 0)
    identity, name, price, tags = goods.columns.values()
    assert (identity.low, identity.high, identity.nulls) == (1, 2000, 0)
    assert identity.distinct.count == pytest.approx(2000, rel=0.15)
    assert (name.distinct.count, name.distinct.is_exact) == (51, True)
    assert (price.nulls, price.low, price.high) == (200, 1.5, 1999.25)
    assert len(price.sample.values) == price.sample.count == 1800
    assert tags.type == "string"
    assert max(found.largest.items)[:2] == (1115, "goods")
    assert found.operations["goods", "delete"] == 30
    assert found.operations["goods", "update"] == 1
    assert sum(found.log.values()) == sum(found.operations.values())
    assert found.skipped == []


def test_a_page_needs_no_network_and_shows_text_as_text(tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="the extra 'report' is not installed")
    text = page("s3://a/<directory>/", make(tmp_path))
    head, _, body = text.partition("</script></head>")
    assert "<title>Report of &lt;directory&gt;</title>" in head
    assert "s3://a/&lt;directory&gt;/<br>" in body
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=['\"]?(https?:)?//", text)
    assert "<b>long</b>" not in body
    assert "2,000" in body
    assert "goods: 2,000 rows" in body


def figure_of(text: str, title: str) -> dict[str, Any]:
    """Return the layout that plotly gets for the figure with a title."""
    for found in re.finditer(r"Plotly\.newPlot\(\s*\"[^\"]*\",\s*", text):
        decoder = json.JSONDecoder()
        _, end = decoder.raw_decode(text, found.end())
        layout, _ = decoder.raw_decode(text, re.compile(r"\s*,\s*").match(text, end).end())  # type: ignore[union-attr]
        if layout.get("title", {}).get("text") == title:
            return dict(layout)
    raise AssertionError(f"no figure {title!r}")


def test_axes_have_whole_numbers_and_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Axes have whole numbers, one second of log gets an axis of ten, and the legend does not cover the date."""
    pytest.importorskip("plotly", reason="the extra 'report' is not installed")
    found = DirectoryProfile()
    found.log[1_700_000_000] = 3
    found.log_bytes[1_700_000_000] = 2_500_000
    found.operations["goods", "insert"] = 3
    monkeypatch.chdir(tmp_path)
    text = page(".", found)
    assert f"<title>Report of {tmp_path.name}</title>" in text
    assert f"{tmp_path}<br>" in text
    assert "3 rows in the log of 2023-11-14 22:13:20 UTC." in text
    growth = figure_of(text, "Growth")
    assert growth["xaxis"]["title"]["text"] == "time (UTC)"
    assert growth["xaxis"]["range"] == ["2023-11-14 22:13:15", "2023-11-14 22:13:25"]
    assert growth["legend"]["yanchor"] == "bottom"
    assert (growth["yaxis"]["tickformat"], growth["yaxis"]["dtick"]) == (",", 1)
    assert (growth["yaxis2"]["tickformat"], growth["yaxis2"]["tickmode"]) == ("~s", "auto")
    assert figure_of(text, "Operations by space")["yaxis"]["dtick"] == 1
    found.log[1_700_000_600] = 3000
    text = page(".", found)
    assert "3,003 rows in the log of 2023-11-14 22:13:20 to 2023-11-14 22:23:20 UTC." in text
    growth = figure_of(text, "Growth")
    assert "range" not in growth["xaxis"]
    assert "dtick" not in growth["yaxis"]


def test_columns_of_figures_stand_to_the_right() -> None:
    text = _table(("a", "b", "c", "d"), [("1", "~2", "3", ""), ("1,000", "", "none", "")])
    assert text.count("<td class='number'>") == 4
    assert "<th>c</th><th>d</th>" in text


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    make(tmp_path)
    log = max(tmp_path.glob("*.xlog"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    pieces, definitions = pieces_of(str(tmp_path))
    (text,) = profile(pieces, definitions).skipped
    assert log.name in text


def test_joined_sketches_are_as_those_of_everything() -> None:
    rng = random.Random(1)
    values = [rng.randrange(20_000) for _ in range(50_000)]
    parts = [DistinctCount() for _ in range(4)]
    samples = [Sample(number) for number in range(4)]
    for number, (part, sample) in enumerate(zip(parts, samples, strict=True)):
        part.add(set(values[number::4]))
        sample.add(values[number::4])
    for part, sample in zip(parts[1:], samples[1:], strict=True):
        parts[0].join(part)
        samples[0].join(sample)
    assert parts[0].count == pytest.approx(len(set(values)), rel=0.15)
    assert samples[0].count == len(values)
    assert sum(samples[0].values) / len(samples[0].values) == pytest.approx(10_000, rel=0.1)
    largest = Largest()
    for size in values:
        if largest.wants(size):
            largest.add(size, "s", "t")
    assert sorted(item[0] for item in largest.items) == sorted(values)[-20:]
