"""Spaces as Spark DataFrames, read from snapshot files in parallel and without a running node.

    spark.dataSource.register(BoxDataSource)
    spark.read.format("box").option("path", DIRECTORY).option("space", NAME).load()

| module | holds |
|---|---|
| `paths`, `blocks` | files by path or URL; blocks of a file, shares of it |
| `definitions`, `snapshot` | spaces and indexes; where the rows of a space are |
| `columns`, `values` | columns of a space; MessagePack as Python values |
| `reference`, `compiled`, `kernels`, `decoder` | blocks to Arrow batches: in Python, by numba, and the choice |
| `conditions`, `misfits`, `skips` | conditions on columns; values that do not fit them; broken blocks |
| `moments`, `log_files`, `log_rows`, `cut` | `as_of`: files of a log, what took effect, one consistent cut |
| `changes`, `primary_keys`, `change_runs` | changes of a space by the log, sorted by key |
| `outcomes`, `base_tuples`, `overlay`, `merge` | what tuples become by them, laid over a snapshot share by share |
| `log_kernels`, `compiled_log`, `key_kernels`, `compiled_tuples` | rows of a log, keys and tuples by compiled code |
| `stream/` | the log as a stream of changes |
| `write/` | frames into a node or a new directory |
| `node_facts` | a running node as it describes itself |
| `source_options`, `table`, `source` | the data source; only `source` and `export` import pyspark |
| `export`, `export_options`, `progress` | the command `lunabox-export` |
| `direct_parquet`, `table_formats` | Parquet written by the tasks themselves; Delta and Iceberg tables of it |
| `report/`, `java_home` | the page about a directory; Java where there is none |
| `cat`, `entry_points` | the command `lunabox-cat`; both commands where packages are missing |
"""
