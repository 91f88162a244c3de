"""Delta and Iceberg tables of Parquet files that tasks have written, by packages of Python instead of Spark's.

```
delta     OUT/part-*.parquet, OUT/_delta_log/00000000000000000000.json                       package deltalake
iceberg   OUT/part-*.parquet, OUT/metadata/v1.metadata.json, version-hint.text, *.avro       package pyiceberg
```

The files are those of `direct_parquet`; what is added here says which of them are the table, with their statistics. An
Iceberg table has the layout of a table without a catalog, which readers find by its path; a catalog can adopt it
(`register_table` with the metadata file).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import Final

import pyarrow as pa

PACKAGES: Final = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""The package that each format needs; the extra has the name of the format."""
_FIRST_METADATA: Final = "v1.metadata.json"
_HINT: Final = "version-hint.text"


def is_installed(kind: str) -> bool:
    """Whether the package of a format is there."""
    return kind in PACKAGES and importlib.util.find_spec(PACKAGES[kind]) is not None


def make_table(kind: str, output: str, schema: pa.Schema) -> None:
    """Make the Parquet files of a directory of this machine a table of a format."""
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

    # A catalog that lives as long as this call: the table is known by its path.
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
