"""Makes `format("millrace")` known to the session that is there when `millrace.spark` is imported."""

from __future__ import annotations

from importlib.util import find_spec

from pyspark.sql import SparkSession


def register_active() -> bool:
    """Whether the active session knows the source now: not where there is none, or where Spark is older than 4."""
    session = SparkSession.getActiveSession()
    if session is None or find_spec("pyspark.sql.datasource") is None:
        return False
    from millrace.spark.data_source import register

    register(session)
    return True
