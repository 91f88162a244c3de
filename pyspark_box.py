"""Found by Spark itself: a module called `pyspark_*` with a `DefaultSource` needs no registration.

With it `spark.read.format("box")` works in every session of an environment where this distribution is installed.
"""

from box.spark.source import BoxDataSource as DefaultSource

__all__ = ["DefaultSource"]
