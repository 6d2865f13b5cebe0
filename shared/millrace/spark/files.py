"""Single files wherever Spark can read and write: its own file systems, asked from the driver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from millrace.aws.s3_client import put_new_object
from millrace.model.errors import InvalidField
from millrace.spark.driver_jvm import file_system

_S3 = ("s3://", "s3a://", "s3n://")
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
    system, place = file_system(spark, pattern)
    return sorted(str(status.getPath().toString()) for status in system.globStatus(place) or ())


def exists(spark: SparkSession, path: str) -> bool:
    system, place = file_system(spark, path)
    return bool(system.exists(place))


def remove(spark: SparkSession, path: str) -> None:
    """Delete a file, or a folder with all that is in it; nothing where there is none."""
    system, place = file_system(spark, path)
    system.delete(place, _ALL_OF_IT)


def move(spark: SparkSession, path: str, to: str) -> None:
    """Give a file another name. Raises OSError where that fails, and where something has that name already."""
    system, place = file_system(spark, path)
    _, target = file_system(spark, to)
    system.mkdirs(target.getParent())
    if system.exists(target) or not system.rename(place, target):
        raise OSError(f"{path} could not be moved to {to}.")


def move_once(spark: SparkSession, path: str, to: str) -> bool:
    """Give a file a name that nobody else has given one: of many that try at once, one gets True.

    S3 has no rename: there the object is made anew, under the condition that there is none. Elsewhere the rename itself
    is refused where something has the name.
    """
    if to.startswith(_S3):
        bucket, _, key = to.partition("://")[2].partition("/")
        return put_new_object(bucket, key, read_bytes(spark, path))
    system, target = file_system(spark, to)
    if str(system.getUri().getScheme()) == "file":
        return _link_once(Path(file_system(spark, path)[1].toUri().getPath()), Path(target.toUri().getPath()))
    try:
        move(spark, path, to)
    except OSError:
        return False
    return True


def _link_once(place: Path, target: Path) -> bool:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(place, target)
    except FileExistsError:
        return False
    return True


def _open(spark: SparkSession, path: str, how: str) -> Any:
    system, place = file_system(spark, path)
    return getattr(system, how)(place)
