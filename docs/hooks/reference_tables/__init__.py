"""Tables of the reference, generated from the code when the site is built.

A line `<!-- table: NAME ARGUMENT... -->` of a page is replaced by the table; `NAME` is a key of `TABLES`. Facts that
are not in the code, such as the effect of an option, are in docs/hooks/facts; test/unit/docs compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from reference_tables import (
    command_lines,
    console_commands,
    error_codes,
    injections,
    later,
    lua_api,
    options,
    spark_options,
)

TABLES: dict[str, Callable[..., str]] = {
    "cfg": options.table_of_groups,
    "command": command_lines.options_of,
    "console-commands": console_commands.commands,
    "console-settings": console_commands.settings_file,
    "error-codes": error_codes.table_of_codes,
    "error-injections": injections.table_of_injections,
    "later": later.table_of,
    "lua": lua_api.table_of,
    "lua-libraries": lua_api.libraries,
    "lua-summary": lua_api.summary,
    "spark": spark_options.table,
}
_MARK = re.compile(r"^<!-- table: ([\w-]+)((?: \S+)*) -->$", re.MULTILINE)


def expand(text: str) -> str:
    """Insert the tables into the text of a page.

    Raises:
        KeyError: a table does not exist.
    """
    return _MARK.sub(lambda mark: TABLES[mark[1]](*mark[2].split()), text)
