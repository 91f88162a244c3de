"""Tables of the reference that are made from the code when the site is built.

A line `<!-- table: NAME ARGUMENT... -->` of a page becomes the table; `NAME` is a key of `TABLES`. What the code cannot
tell, such as what an option is for, is in docs/hooks/facts, and test/unit/docs holds both to each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from reference_tables import command_lines, console_commands, error_codes, injections, lua_api, options, spark_options

TABLES: dict[str, Callable[..., str]] = {
    "cfg": options.table_of_groups,
    "command": command_lines.options_of,
    "console-commands": console_commands.commands,
    "console-settings": console_commands.settings_file,
    "error-codes": error_codes.table_of_codes,
    "error-injections": injections.table_of_injections,
    "lua": lua_api.table_of,
    "lua-libraries": lua_api.libraries,
    "lua-summary": lua_api.summary,
    "spark": spark_options.table,
}
_MARK = re.compile(r"^<!-- table: ([\w-]+)((?: \S+)*) -->$", re.MULTILINE)


def expand(text: str) -> str:
    """Put the tables into the text of a page. KeyError for a table that is not there."""
    return _MARK.sub(lambda mark: TABLES[mark[1]](*mark[2].split()), text)
