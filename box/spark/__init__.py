"""Spaces as Spark DataFrames, read from snapshot files in parallel and without a running node.

    spark.dataSource.register(BoxDataSource)
    spark.read.format("box").option("path", DIRECTORY).option("space", NAME).load()

| module | holds |
|---|---|
| `paths`, `blocks` | files by path or URL; blocks of a file, shares of it |
| `definitions`, `snapshot` | spaces and indexes; where the rows of a space are |
| `columns`, `values` | columns of a space; MessagePack as Python values |
| `reference`, `compiled`, `kernels`, `decoder` | blocks to Arrow batches: in Python, by numba, and the choice |
| `conditions` | conditions on columns |
| `source_options`, `table`, `source` | the data source; only `source` and `export` import pyspark |
| `export` | the command `lunabox-export` |
"""
