"""Spaces as Spark DataFrames, read from snapshot files in parallel and without a running node.

    spark.dataSource.register(BoxDataSource)
    spark.read.format("box").option("path", DIRECTORY).option("space", NAME).load()

Modules: `snapshot` finds files, space definitions and block ranges; `columns` maps formats to column types;
`source` is the data source and `cli` the command `lunabox-export`. Only the last two import pyspark.
"""
