"""Makes Delta and Iceberg tables of Parquet files that tasks have written, by Python packages instead of Spark's.

```
delta     OUT/part-*.parquet, OUT/_delta_log/00000000000000000000.json                       package deltalake
iceberg   OUT/part-*.parquet, OUT/metadata/v1.metadata.json, version-hint.text, *.avro       package pyiceberg
```

The Parquet files come from `direct_parquet`; this module adds the lists of the files of the table with their
statistics. An Iceberg table gets the layout of a table without a catalog, which readers find by its path. A catalog can
adopt it (`register_table` with the metadata file).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

PACKAGES: Final = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""The package that each format needs; the optional dependency of this project has the name of the format."""
_FIRST_METADATA: Final = "v1.metadata.json"
"""The name of the metadata file in a table without a catalog: readers look for `v<number>.metadata.json`."""
_HINT: Final = "version-hint.text"
"""The file with the number of the current metadata file."""


def is_installed(kind: str) -> bool:
    """Return whether the package of a format is installed."""
    return kind in PACKAGES and importlib.util.find_spec(PACKAGES[kind]) is not None


def make_table(kind: str, output: str, schema: pa.Schema) -> None:
    """Make a table of a format from the Parquet files of a local directory."""
    files = sorted(name for name in os.listdir(output) if name.endswith(".parquet"))
    {"delta": _make_delta, "iceberg": _make_iceberg}[kind](os.path.abspath(output), files, schema)


def _make_delta(output: str, files: list[str], schema: pa.Schema) -> None:
    import deltalake  # type: ignore[import-not-found, unused-ignore]

    if files:
        deltalake.convert_to_deltalake(output)
    else:
        deltalake.DeltaTable.create(output, schema)


def _make_iceberg(output: str, files: list[str], schema: pa.Schema) -> None:
    from pyiceberg.catalog.sql import SqlCatalog  # type: ignore[import-not-found, unused-ignore]

    # This catalog exists only during the call, because the table is found by its path.
    catalog = SqlCatalog("lunabox", uri="sqlite:///:memory:", warehouse=f"file://{output}")
    try:
        catalog.create_namespace("lunabox")
        table = catalog.create_table("lunabox.table", schema=schema, location=f"file://{output}")
        if files:
            table.add_files([f"file://{output}/{name}" for name in files])
        metadata = os.path.join(output, "metadata")
        shutil.copyfile(table.metadata_location.removeprefix("file://"), os.path.join(metadata, _FIRST_METADATA))
        with open(os.path.join(metadata, _HINT), "w", encoding="ascii") as file:
            file.write("1")
    finally:
        catalog.close()
