"""Reads spaces as Spark DataFrames from snapshot files, in parallel and without a running node.

    spark.dataSource.register(BoxDataSource)
    spark.read.format("box").option("path", DIRECTORY).option("space", NAME).load()

| module | holds |
|---|---|
| `paths`, `blocks` | files by path or URL; blocks of a file, and shares of it |
| `definitions`, `snapshot` | spaces and indexes; the blocks that have the rows of a space |
| `columns`, `values` | columns of a space; MessagePack as Python values |
| `reference`, `compiled`, `kernels`, `decoder` | blocks to Arrow batches: in Python, by numba, and the choice |
| `conditions`, `key_ranges`, `misfits`, `skips` | conditions on columns and keys; misfits; broken blocks |
| `moments`, `log_files`, `log_rows`, `cut` | `as_of`: the files of a log, rows that took effect, a consistent cut |
| `changes`, `primary_keys`, `change_runs` | the changes of a space in the log, sorted by key |
| `outcomes`, `base_tuples`, `overlay`, `merge` | these changes applied to the tuples of a snapshot, share by share |
| `log_kernels`, `compiled_log`, `key_kernels`, `compiled_tuples` | rows of a log, keys and tuples by compiled code |
| `stream/` | the log as a stream of changes |
| `write/` | frames written into a node or a new directory |
| `node_facts` | what a running node tells about itself |
| `source_options`, `table`, `source` | the data source; only `source` and `export` import pyspark |
| `export`, `export_options`, `progress` | the command `lunabox-export` |
| `direct_parquet`, `table_formats` | Parquet written by the tasks themselves; Delta and Iceberg tables of it |
| `report/`, `java_home` | the page about a directory; Java for machines without it |
| `cat`, `entry_points` | the command `lunabox-cat`; the start of both commands if packages are missing |
"""
