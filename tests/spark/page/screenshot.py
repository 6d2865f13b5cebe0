"""`make screenshots`: the bulk job's report of ten thousand messages for the docs, into infra/screenshots."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from infra.local.dynamodb import find_java
from tests.console.browser import browsing
from tests.spark.page.lived import live_through
from tests.spark.page.test_views import lake_of

PICTURE = Path("infra/screenshots/report.png")


def make_page(folder: Path) -> Path:
    """The page of a day with ten thousand messages and failures, by the job's own code."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(Path(find_java()).resolve().parents[1])}
    from pyspark.sql import SparkSession

    from millrace.spark.page.make import PAGE, make_page

    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    (folder / "lake").mkdir()
    make_page(spark, lake_of(spark, live_through(), folder / "lake"), str(folder), "docs", sla_s=60.0)
    spark.stop()
    return folder / PAGE


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page_file = make_page(Path(folder))
        print(f"{page_file.stat().st_size:,} bytes of HTML")
        with browsing() as browser:
            page = browser.new_page(viewport={"width": 1080, "height": 2150})
            page.goto(page_file.as_uri())
            page.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
