"""What a run needs to know and its caller need not repeat: tables, definitions, the name of the run.

Each is looked for in the session's settings (`spark.millrace.queue_table`, which a cluster or a job can set) and then
in the environment under the name that the functions use (`QUEUE_TABLE`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING

from millrace.model.errors import InvalidField
from millrace.spark.connection import TableConnection
from millrace.spark.files import read_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.millrace."
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
#: Settings of a connection, with the environment's name for each.
TABLES = {"queue_table": "QUEUE_TABLE", "dead_letter_table": "DEAD_LETTER_TABLE", "body_bucket": "BODY_BUCKET"}
ENDPOINTS = {
    "region": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL_DYNAMODB",
    "s3_endpoint_url": "AWS_ENDPOINT_URL_S3",
}


def demand_run(name: str) -> str:
    """Raises InvalidField for what cannot name a run."""
    if not _RUN.fullmatch(name):
        raise InvalidField("run", f"{name!r} is no name of a run", "1 to 64 letters, digits and ._:-")
    return name


def demand_classic(spark: SparkSession) -> None:
    """Raises InvalidField for a session of Spark Connect, which has no driver of its own to count tasks by."""
    if is_remote(spark):
        raise InvalidField("spark", "is a session of Spark Connect", 'a classic one, or format("millrace")')


def is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def setting(spark: SparkSession, name: str, variable: str, options: Mapping[str, str] | None = None) -> str | None:
    """An option of the call, the session's setting or the environment's; None where none of them says anything."""
    given = (options or {}).get(name) or spark.conf.get(f"{PREFIX}{name}", None)
    return given or os.environ.get(variable) or None


def table_connection(spark: SparkSession, options: Mapping[str, str] | None = None) -> TableConnection:
    """Where the tables are. Raises InvalidField for one that nobody names."""
    found = {name: setting(spark, name, variable, options) for name, variable in (TABLES | ENDPOINTS).items()}
    for name, variable in TABLES.items():
        if not found[name]:
            raise InvalidField(name, "is missing", f"an argument, the setting {PREFIX}{name} or {variable}")
    return TableConnection(**found)  # type: ignore[arg-type]


def definitions_of(spark: SparkSession, given: str | bytes | None) -> bytes:
    """The compiled definitions: given, or at the path that is given or set, or those of the package."""
    if isinstance(given, bytes):
        return given
    path = given or setting(spark, "definitions", "DEFINITIONS")
    if path:
        return read_bytes(spark, path)
    try:
        return files("millrace").joinpath("definitions.json").read_bytes()
    except OSError:
        raise InvalidField(
            "definitions", "are missing", f"a path, the setting {PREFIX}definitions, or those of `make glue-package`"
        ) from None
