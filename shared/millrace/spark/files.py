"""Single files wherever Spark can read and write: its own file systems, asked from the driver."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from millrace.model.errors import InvalidField

#: Hadoop's `recursive`.
_ALL_OF_IT = True


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Write one file, in place of what was there."""
    stream = _open(spark, path, "create")
    try:
        stream.write(bytearray(text.encode("utf-8")))
    finally:
        stream.close()


def read_bytes(spark: SparkSession, path: str) -> bytes:
    """One small file, whole."""
    found = spark.read.format("binaryFile").load(path).select("content").collect()
    if len(found) != 1:
        raise InvalidField("path", f"{path!r} is {len(found)} files", "one file")
    return bytes(found[0]["content"])


def glob(spark: SparkSession, pattern: str) -> list[str]:
    """The files that match, sorted; none where nothing does."""
    system, place = _system(spark, pattern)
    return sorted(str(status.getPath().toString()) for status in system.globStatus(place) or ())


def exists(spark: SparkSession, path: str) -> bool:
    system, place = _system(spark, path)
    return bool(system.exists(place))


def remove(spark: SparkSession, path: str) -> None:
    """Delete a file, or a folder with all that is in it; nothing where there is none."""
    system, place = _system(spark, path)
    system.delete(place, _ALL_OF_IT)


def move(spark: SparkSession, path: str, to: str) -> None:
    """Give a file another name. Raises OSError where that fails, and where something has that name already."""
    system, place = _system(spark, path)
    _, target = _system(spark, to)
    system.mkdirs(target.getParent())
    if system.exists(target) or not system.rename(place, target):
        raise OSError(f"{path} could not be moved to {to}.")


def _open(spark: SparkSession, path: str, how: str) -> Any:
    system, place = _system(spark, path)
    return getattr(system, how)(place)


def _system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """The file system that a path is of, and the path as it takes it."""
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), place
