"""Under Spark Connect: the format writes and reads; what needs the driver's own session says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.build.bulk_package import ROOT
from infra.local.dynamodb import REGION, find_java
from tests.spark.conftest import Desk

pytestmark = pytest.mark.spark
#: What a Connect client needs beside pyspark; no part of ours does.
CLIENT = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
import millrace.spark
from millrace.model.errors import MillraceError
from millrace.spark.connection import TableConnection
options = json.loads(sys.argv[1])
assert "connect" in type(spark).__module__, type(spark)
frame = spark.createDataFrame([(f"row-{n}", n) for n in range(120)], "id string, n int")
write = dict(options, queue="Jobs", idempotency_key="id", run="connect")
frame.write.format("millrace").mode("append").options(**write).save()
frame.write.format("millrace").mode("append").options(**write).save()
read = spark.read.format("millrace").options(**options).load()
found = {row["status"]: row["count"] for row in read.groupBy("status").count().collect()}
tables = TableConnection(options["queue_table"], options["dead_letter_table"], "none")
said = []
for call in (lambda: millrace.spark.enqueue(frame, queue="Jobs", connection=tables),
             lambda: millrace.spark.read(spark, connection=tables)):
    try:
        call()
    except MillraceError as error:
        said.append(str(error))
print("FOUND", json.dumps([found, said]))
spark.stop()
"""


def test_the_format_works_and_the_rest_says_what_does_not(desk: Desk, tmp_path: Path) -> None:
    uv = os.environ.get("UV") or str(ROOT / ".venv-uv" / "bin" / "uv")
    client = tmp_path / "client"
    install = [uv, "pip", "install", "--quiet", "--target", str(client), "--python", sys.executable, *CLIENT]
    subprocess.run(install, check=True)
    options = {
        "queue_table": desk.tables.queue, "dead_letter_table": desk.tables.dead_letters, "body_bucket": "none",
        "region": REGION, "endpoint_url": desk.engine_url, "tenant": desk.tenant, "segments": "2",
        "definitions": str(desk.definitions),
    }  # fmt: skip
    environment = os.environ | {
        "PYTHONPATH": f"{client}:{ROOT / 'shared'}", "JAVA_HOME": str(Path(find_java()).resolve().parents[1]),
        "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    command = [sys.executable, "-c", SCRIPT, json.dumps(options)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, ran.stderr[-3_000:]
    found, said = json.loads(lines[0].removeprefix("FOUND "))
    assert found == {"ready": 120}
    assert len(desk.entries()) == 120
    assert len(said) == 2
    assert all("Spark Connect" in text and 'format("millrace")' in text for text in said)
