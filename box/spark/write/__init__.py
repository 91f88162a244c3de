"""Frames written into a node or a new directory: `df.write.format("box")`, `df.writeStream.format("box")`.

| module | holds |
|---|---|
| `write_options` | the options of a writer, checked |
| `target_fields` | the field for each column, and how its values are stored |
| `node_client` | requests for many rows over one connection, with repetition after errors |
| `upsert_marks` | upserts that are applied once, however often they are sent |
| `run_file`, `bulk_load` | sorted runs of tuples, and the snapshot that is made of them |
| `data_writer` | Spark's interface; the only module that imports pyspark |
"""
