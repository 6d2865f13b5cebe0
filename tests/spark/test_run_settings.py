"""What a run need not be told twice: an option, the session's setting, the environment, in this order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millrace.model.errors import InvalidField
from millrace.spark.connection import TableConnection
from millrace.spark.run_settings import definitions_of, demand_classic, demand_run, setting, table_connection

NAMES = ("QUEUE_TABLE", "DEAD_LETTER_TABLE", "BODY_BUCKET", "AWS_REGION", "AWS_ENDPOINT_URL_DYNAMODB", "DEFINITIONS")


class Session:
    """As much of a session as holds settings."""

    def __init__(self, **settings: str) -> None:
        self.conf = self
        self.settings = {f"spark.millrace.{name}": value for name, value in settings.items()}

    def get(self, name: str, default: Any) -> Any:
        return self.settings.get(name, default)


def session(**settings: str) -> Any:
    return Session(**settings)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)


def test_an_option_wins_over_the_session_and_the_session_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert setting(session(), "queue_table", "QUEUE_TABLE") is None
    monkeypatch.setenv("QUEUE_TABLE", "of-environment")
    assert setting(session(), "queue_table", "QUEUE_TABLE") == "of-environment"
    assert setting(session(queue_table="of-session"), "queue_table", "QUEUE_TABLE") == "of-session"
    assert setting(session(queue_table="s"), "queue_table", "QUEUE_TABLE", {"queue_table": "option"}) == "option"


def test_a_connection_needs_its_tables_and_nothing_else() -> None:
    found = table_connection(session(queue_table="q", dead_letter_table="d"), {"body_bucket": "b"})
    assert found == TableConnection("q", "d", "b")
    with pytest.raises(InvalidField, match="BODY_BUCKET"):
        table_connection(session(queue_table="q", dead_letter_table="d"))


def test_definitions_are_given_or_say_what_is_missing() -> None:
    assert definitions_of(session(), b"{}") == b"{}"
    with pytest.raises(InvalidField, match="glue-package"):
        definitions_of(session(), None)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")
def test_definitions_are_read_from_a_path(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_bytes(b"{}")
    assert definitions_of(spark, str(tmp_path / "d.json")) == b"{}"


@pytest.mark.parametrize("name", ["", "-a", "a/b", "a" * 65, "ä"])
def test_what_cannot_name_a_run_is_refused(name: str) -> None:
    with pytest.raises(InvalidField, match="run"):
        demand_run(name)


def test_a_query_s_and_a_batch_s_id_name_a_run() -> None:
    name = "0e0d1f3a-6a8b-4a52-9f0e-6a3a5f9f7a11:1234567890"
    assert demand_run(name) == name


def test_a_session_of_spark_connect_is_refused_in_so_many_words() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(InvalidField, match="Spark Connect"):
        demand_classic(remote)
    demand_classic(type("SparkSession", (), {"__module__": "pyspark.sql.session"})())
