"""The data source is known to the session in which `millrace.spark` is imported."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from millrace.spark import registration
from millrace.spark.registration import register_active


class NoSession:
    @staticmethod
    def getActiveSession() -> None:  # noqa: N802 (Spark's name)
        return None


def test_without_a_session_nothing_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "SparkSession", NoSession)
    assert register_active() is False


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")
def test_the_session_that_is_there_knows_the_source_where_spark_has_them(spark: Any) -> None:
    assert spark is not None
    assert register_active() is (find_spec("pyspark.sql.datasource") is not None)
    assert register_active() is (find_spec("pyspark.sql.datasource") is not None), "a second time is no error"
