"""Single files wherever Spark can read and write: its own file systems, asked from the driver."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Write one file, in place of what was there."""
    stream = _open(spark, path, "create")
    try:
        stream.write(bytearray(text.encode("utf-8")))
    finally:
        stream.close()


def read_bytes(spark: SparkSession, path: str) -> bytes:
    """One small file, whole."""
    stream = _open(spark, path, "open")
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()


def _open(spark: SparkSession, path: str, how: str) -> Any:
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    system = place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    return getattr(system, how)(place)
