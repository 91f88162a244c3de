"""The log as a stream of changes: `spark.readStream.format("box")`.

| module | holds |
|---|---|
| `stream_options` | the options of a stream, checked |
| `stream_offset` | a position in the log as Spark's checkpoints keep it |
| `cut_points` | the positions where a batch may end, because everything before them is decided |
| `change_rows` | rows of the log as columns: operation, key, tuples |
| `stream_parts` | a batch: parts that workers read, and what they need for it |
| `log_stream` | batches of the log files of a directory |
| `replica_stream`, `replica_thread` | batches from a running node, as an anonymous replica |
| `stream_reader` | Spark's interface; the only module that imports pyspark |
"""
