"""Notes on errors for programs in Python. The texts are those of Tarantool; a note says how to mend the statement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from box.errors import BoxError, ErrorCode, client_error

if TYPE_CHECKING:
    from box.schema.space import Space


def unknown_name(error: BoxError, missing: str, names: Iterable[str | None]) -> BoxError:
    """Return the error about a missing name. It gets a note if one of `names` differs only in the case of its letters:
    SQL folds names to upper case unless they are quoted.
    """
    folded = missing.upper()
    for name in names:
        if name is not None and name != missing and name.upper() == folded:
            error.add_note(f'SQL folds names without quotes to upper case: write "{name}" in double quotes.')
            break
    return error


def unknown_field(space: Space, name: str) -> BoxError:
    """Return the error about a column that a table does not have."""
    error = client_error(ErrorCode.NO_SUCH_FIELD_NAME_IN_SPACE, name, space.name)
    return unknown_name(error, name, (field.name for field in space.definition.fields))
