"""DynamoDB's exports to S3, full and incremental: which files they are made of, and from when.

    EXPORT/manifest-summary.json     the table, the kind of export, its time or its window
    EXPORT/manifest-files.json       a line for each data file
    …/data/*.json.gz                 items, a line each; incremental exports share one folder of data files

An export costs no read units. What it says is taken from its manifests alone: a data file that no manifest lists is
another export's, and one that is listed and missing is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from millrace.model.dictionary import StoredDictionary
from millrace.model.errors import InvalidField
from millrace.spark.data.facts import FACTS, MICROS, read_item, read_lines
from millrace.spark.files import glob, read_bytes
from millrace.stores.dynamodb.dictionaries import DICTIONARIES, stored_dictionary_of
from millrace.stores.dynamodb.items import Item

SUMMARY, FILES = "manifest-summary.json", "manifest-files.json"
#: Where exports lie below a path: the path is one, or holds some (its prefix, or the folder `AWSDynamoDB`).
_BELOW = ("", "*/", "AWSDynamoDB/*/", "*/AWSDynamoDB/*/")
ROOT = "AWSDynamoDB/"


@dataclass(frozen=True, slots=True)
class Export:
    """One export, by its manifests."""

    name: str  #: of the export, as DynamoDB gave it
    table: str
    until: int  #: microseconds: the time of a full export, the end of an incremental one's window
    since: int | None  #: start of the window; None for a full export
    files: tuple[str, ...]

    @property
    def full(self) -> bool:
        return self.since is None


def find_exports(spark: SparkSession, paths: str | Sequence[str]) -> list[Export]:
    """The exports at or below these paths, oldest first. Raises InvalidField for none, or an unusable one."""
    found: dict[str, Export] = {}
    for path in [paths] if isinstance(paths, str) else paths:
        base = path.rstrip("/")
        summaries = [place for below in _BELOW for place in glob(spark, f"{base}/{below}{SUMMARY}")]
        if not summaries:
            raise InvalidField("source", f"no {SUMMARY} in {path}", "the folder of a finished DynamoDB export")
        for place in summaries:
            folder = place.rsplit("/", 1)[0]
            export = read_export(folder, read_bytes(spark, place), read_bytes(spark, f"{folder}/{FILES}"))
            found[export.name] = export
    return sorted(found.values(), key=lambda export: (export.until, export.name))


def read_export(folder: str, summary: bytes, files: bytes) -> Export:
    """An export by the text of its two manifests. Raises InvalidField for one that cannot be read here."""
    said: dict[str, Any] = json.loads(summary)
    name = folder.rsplit("/", 1)[1]
    if said.get("outputFormat") != "DYNAMODB_JSON":
        raise InvalidField("source", f"export {name} is in {said.get('outputFormat')}", "DYNAMODB_JSON")
    since = None
    if said.get("exportType") == "INCREMENTAL_EXPORT":
        # Without old images nobody can say whose entry a deletion took away.
        if said.get("outputView") != "NEW_AND_OLD_IMAGES":
            raise InvalidField("source", f"export {name} shows {said.get('outputView')}", "NEW_AND_OLD_IMAGES")
        since = _micros(said["exportFromTime"])
    until = _micros(said["exportTime"] if since is None else said["exportToTime"])
    listed = [json.loads(line)["dataFileS3Key"] for line in files.splitlines() if line.strip()]
    table = str(said["tableArn"]).rsplit("/", 1)[1]
    return Export(name, table, until, since, tuple(_place(folder, key) for key in listed))


def _place(folder: str, key: str) -> str:
    """Where a listed file lies: keys count from the bucket, wherever the export was copied to since."""
    root, below, _ = f"{folder}/".rpartition(f"/{ROOT}")
    return f"{root}/{key[key.rindex(ROOT) :]}" if below else f"{folder}/data/{key.rsplit('/', 1)[1]}"


def _micros(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000) * MICROS


def export_facts(spark: SparkSession, exports: Iterable[Export]) -> DataFrame:
    """Everything that these exports say, as facts."""
    frames = [_lines(spark, export) for export in exports if export.files]
    if not frames:
        return spark.createDataFrame([], FACTS.ddl)
    return reduce(DataFrame.unionByName, frames).mapInArrow(read_lines, FACTS.ddl)


@dataclass(frozen=True, slots=True)
class KnownDictionary:
    """A queue's dictionary, as an export holds it."""

    tenant: str
    queue: str
    stored: StoredDictionary


def exported_dictionaries(spark: SparkSession, exports: Iterable[Export]) -> tuple[KnownDictionary, ...]:
    """Every dictionary that these exports hold. Reads all of their lines, and parses few."""
    frames = [_lines(spark, export).select("value") for export in exports if export.files]
    if not frames:
        return ()
    lines = reduce(DataFrame.unionByName, frames).where(F.col("value").contains(f'"{DICTIONARIES}'))
    return dictionaries_in(row["value"] for row in lines.collect())


def dictionaries_in(lines: Iterable[str]) -> tuple[KnownDictionary, ...]:
    """The dictionaries among the lines of exports, in an order of their own."""
    spelled = (json.loads(line) for line in lines if f'"{DICTIONARIES}' in line)
    images = [image for line in spelled if (image := line.get("Item") or line.get("NewImage"))]
    found = {known for image in images if (known := _dictionary_of(read_item(image))) is not None}
    return tuple(sorted(found, key=lambda known: (known.tenant, known.queue, known.stored.name, known.stored.until)))


def _dictionary_of(item: Item) -> KnownDictionary | None:
    pk = item["pk"]["S"]
    if not pk.startswith(DICTIONARIES) or "data" not in item:
        return None
    tenant, queue = pk.removeprefix(DICTIONARIES).split("#")
    return KnownDictionary(tenant, queue, stored_dictionary_of(item))


def _lines(spark: SparkSession, export: Export) -> DataFrame:
    lines = spark.read.text(list(export.files), lineSep="\n")
    return lines.select(
        F.col("_metadata.file_path").alias("path"),
        F.lit(export.until).cast("long").alias("at"),
        F.decode(F.col("value").cast("binary"), "UTF-8").alias("value"),
    )
