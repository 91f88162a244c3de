"""From a script's lines to a result file: versions, comments, delimiters, continuation lines."""

from __future__ import annotations

import pytest

from console.suite.script import Echo, Run, ScriptReader, result_version, wire_command


def play(source: str, version: int = 2, replies: str = "---\n- ok\n...\n") -> tuple[str, list[str]]:
    """Run a script; return the result and the commands. `setopt delimiter X` in a command sets the delimiter."""
    reader = ScriptReader(version)
    result, commands = reader.header(), []
    for line in source.split("\n"):
        for action in reader.feed(line):
            if isinstance(action, Run):
                commands.append(action.command)
                result += reader.reply(replies)
                if action.command.startswith("setopt delimiter"):
                    reader.delimiter = action.command.split("'")[1]
            else:
                result += action.text
    result += "".join(action.text for action in reader.finish() if isinstance(action, Echo))
    return result, commands


def test_version_two() -> None:
    """Version 2 has a header, replies after a bar, and comments and blank lines unchanged."""
    result, commands = play("-- why\nf()\n\n\ng()")
    assert result == (
        "-- test-run result file version 2\n-- why\nf()\n | ---\n | - ok\n | ...\n\n\ng()\n | ---\n | - ok\n | ...\n"
    )
    assert commands == ["f()\n", "g()\n"]


def test_version_one() -> None:
    """Version 1 has no header, plain replies, and no blank lines."""
    result, _ = play("-- why\n\nf()\n\n-- then\ng()", version=1)
    assert result == "-- why\nf()\n---\n- ok\n...\n-- then\ng()\n---\n- ok\n...\n"


def test_blank_line_inside_a_command_of_version_one() -> None:
    """In version 1 a blank line inside a command stays."""
    result, commands = play("setopt delimiter ';'\nf(\n\n1);", version=1, replies="")
    assert result == "setopt delimiter ';'\nf(\n\n1);\n"
    assert commands[1] == "f( 1)"


def test_tags_are_skipped() -> None:
    """The line with tags is skipped."""
    assert play("-- tags: parallel\n-- x")[0] == "-- test-run result file version 2\n-- x\n"


def test_backslash_continues() -> None:
    """A backslash continues a line: it stays in the echo, and the command has a space in its place."""
    result, commands = play("f(  \\\n  1)")
    assert commands == ["f(     1)\n"]
    assert "f(  \\\n  1)\n | ---" in result


def test_delimiter() -> None:
    """Lines are collected until the delimiter; a backslash has no meaning then."""
    source = "setopt delimiter ';'\nf(\\\n-- dropped\n 1);\nsetopt delimiter '';\ng()"
    result, commands = play(source)
    assert commands[1:] == ["f(\\  1)", "setopt delimiter ''", "g()\n"]
    assert "f(\\\n-- dropped\n 1);\n | ---" in result


def test_indented_comment_is_code() -> None:
    """Only a line that begins with two dashes is a comment."""
    assert play(" -- x")[1] == [" -- x\n"]


def test_empty_reply() -> None:
    """The reply of a node that went away is an empty bar in version 2."""
    assert play("f()", replies="")[0].endswith("f()\n | \n")


def test_unfinished_command_is_echoed() -> None:
    """A command that is unfinished at the end of the script is echoed and not sent."""
    result, commands = play("f( \\\n1 \\")
    assert commands == []
    assert result.endswith("f( \\\n1 \\\n")


def test_result_version() -> None:
    """The header has the version of a result; without a header it is 1, without a file the newest."""
    assert result_version(None) == 2
    assert result_version("-- test-run result file version 2\n") == 2
    assert result_version("f()\n---\n...\n") == 1
    for unknown in ("3", "x", ""):
        with pytest.raises(ValueError, match="unknown version"):
            result_version(f"-- test-run result file version {unknown}\n")


def test_wire_command() -> None:
    """A command is sent as one line, whatever lines it has."""
    assert wire_command("f(\n1)\n") == b"f( 1) \n"
