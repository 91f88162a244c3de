"""Makes man pages from the command pages in docs/reference: `python docs/hooks/man.py DIRECTORY`.

It knows a small part of Markdown: a title, headings, paragraphs, `code`, links (whose text is kept), lists whose items
begin with code and a colon, and the generated tables of a command's options.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from reference_tables import expand

REFERENCE = Path(__file__).parent.parent / "reference"
_LINK = re.compile(r"\[([^]\[]+)\]\([^)\s]+\)")


def convert(text: str, name: str) -> str:
    """Return a page as roff."""
    lines = [f'.TH "{name.upper()}" "1"']
    for block in re.split(r"\n{2,}", _LINK.sub(r"\1", text).strip()):
        lines += _block(block, name)
    return "\n".join(lines) + "\n"


def _block(block: str, name: str) -> Iterator[str]:
    if block.startswith("# "):
        return
    if block.startswith("## "):
        yield f".SH {block[3:].upper()}"
    elif block.startswith("### "):
        yield f".SS {_inline(block[4:])}"
    elif block.startswith("- "):
        for item in re.split(r"^- ", block, flags=re.MULTILINE)[1:]:
            yield from _item(" ".join(item.split()))
    else:
        yield ".PP"
        yield _inline(" ".join(block.split()))


def _item(item: str) -> Iterator[str]:
    """Return a list item as roff: the text up to the colon becomes the tag."""
    terms, colon, rest = item.partition(": ")
    yield ".TP"
    if not colon:
        yield "\\(bu"
        yield _inline(item)
        return
    yield _bold(terms)
    yield _inline(rest)


def _bold(text: str) -> str:
    return f"\\fB{_escape(text.replace('`', ''))}\\fR"


def _inline(text: str) -> str:
    parts = text.split("`")
    return "".join(_escape(part) if number % 2 == 0 else _bold(part) for number, part in enumerate(parts))


def _escape(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def main(directory: str) -> None:
    """Write the man page of each command."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for page in sorted(REFERENCE.glob("lunabox*.md")):
        text = expand(page.read_text())
        summary = text.split("\n\n")[1]
        text = text.replace(summary, f"## Name\n\n{page.stem} - {summary}", 1)
        (target / f"{page.stem}.1").write_text(convert(text, page.stem))


if __name__ == "__main__":
    main(sys.argv[1])
