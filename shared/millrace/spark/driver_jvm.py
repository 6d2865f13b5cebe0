"""What only Spark's Java side can say: the one place that calls it by private names.

PySpark has no public call for either. A plan's statistics are to be had as text alone, printed by `explain("cost")`;
files are read and written by the folder, never renamed, deleted or looked for. A session of Spark Connect has no Java
side here: whoever needs one of these asks for a classic session first (`demand_classic`).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

#: What Spark takes for the size of something that it cannot see into, such as a table read by our own code.
UNKNOWN = 2**62


def size_in_bytes(rows: DataFrame) -> int | None:
    """What Spark takes for the size of all that is read; None where it cannot tell."""
    leaves = rows._jdf.queryExecution().optimizedPlan().collectLeaves()
    size = sum(int(str(leaves.apply(n).stats().sizeInBytes())) for n in range(leaves.size()))
    return None if size >= UNKNOWN else size


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's file system that a path is of, and the path as it takes it."""
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), place
