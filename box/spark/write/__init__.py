"""Frames written into a node or a new directory: `df.write.format("box")`, `df.writeStream.format("box")`.

| module | holds |
|---|---|
| `write_options` | options of a writer, checked |
| `target_fields` | which column goes to which field, and how its values are stored |
| `node_client` | requests of many rows over one connection: in flight, sent again, refused |
| `upsert_marks` | upserts that are applied once, however often they are sent |
| `run_file`, `bulk_load` | sorted runs of tuples, and the snapshot that is made of them |
| `data_writer` | Spark's interface; the only module that imports pyspark |
"""
