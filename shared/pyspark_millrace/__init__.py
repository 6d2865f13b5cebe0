"""Found by Spark 4 in any session whose Python path has this package: `format("millrace")` then needs no import."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("pyspark.sql.datasource") is not None:
    from millrace.spark.data_source import MillraceSource as DefaultSource

    __all__ = ["DefaultSource"]
