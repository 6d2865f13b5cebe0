"""A folder of partitioned Parquet that changes as a whole, by a journal.

    LAKE/messages/day=2026-11-18/queue=Jobs/…     what everybody reads
    LAKE/_millrace/state-000000000007.json        what was merged so far: the journal of the last change
    LAKE/_millrace/journal-000000000008.json      while that change is being put into place
    LAKE/_millrace/staged/RUN/…                   what a run has written and not put into place yet

A run writes the partitions that it changes beside the lake. The journal's write is the commit: whoever finds one puts
its change into place, however often that is begun, and a run that died before it left nothing but staged files. So a
killed run is the run before, or this one. A journal is named by its version, and that name is given once, on S3 by a
conditional put: of two runs that commit at once one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from millrace.model.errors import InvalidField, StoreUnavailable
from millrace.spark.files import exists, glob, move, move_once, read_bytes, remove, write_text

#: Dot and underscore: Spark passes such folders over when it reads what lies beside them.
_OWN = "_millrace"
MESSAGES, ERASED, LOOSE = "messages", "erased", "loose"
PARTITIONED_BY: Mapping[str, tuple[str, ...]] = {MESSAGES: ("day", "queue"), ERASED: (), LOOSE: ()}


@dataclass(frozen=True, slots=True)
class LakeFolder:
    """Where a lake lies, and how it is changed."""

    spark: SparkSession
    path: str

    def read_state(self) -> dict[str, Any]:
        """What was merged so far. A change that was committed and not finished is finished first."""
        self.recover()
        files = self._state_files()
        return json.loads(read_bytes(self.spark, files[-1]))["state"] if files else {}

    def read(self, what: str, schema: StructType | str) -> DataFrame:
        """One of the lake's data sets; empty where nothing was written yet."""
        place = f"{self.path}/{what}"
        if not glob(self.spark, f"{place}/*"):
            return self.spark.createDataFrame([], schema)
        return self.spark.read.schema(schema).parquet(place)

    def stage(self, run: str, what: str, rows: DataFrame) -> None:
        """Write rows beside the lake: the whole of each partition that they touch."""
        keys = PARTITIONED_BY[what]
        spread = rows.repartition(*keys).sortWithinPartitions("message_id") if keys else rows.coalesce(1)
        # Spark's own INT96 is read by few others.
        self.spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        spread.write.mode("overwrite").partitionBy(*keys).parquet(f"{self._own}/staged/{run}/{what}")

    def commit(self, run: str, emptied: Iterable[str], state: dict[str, Any]) -> None:
        """Put what was staged into place: the partitions it holds, nothing of those that are `emptied`.

        `state` carries the version that comes after the one that the run has read. Raises StoreUnavailable, with the
        lake unchanged, where another run has made that version: what this one staged is made of older rows.
        """
        journal = {"run": run, **self._change(run, emptied), "state": {**state, "run": run}}
        staged_journal = f"{self._own}/staged/{run}/journal.json"
        write_text(self.spark, staged_journal, json.dumps(journal))
        if self.read_state().get("version", 0) == state["version"] - 1:
            move_once(self.spark, staged_journal, self._journal(state["version"]))
        now = self.read_state()
        if (now.get("run"), now.get("version", 0)) != (run, state["version"]):
            raise StoreUnavailable(f"Another run has changed the lake {self.path} meanwhile: run it again.")

    def _change(self, run: str, emptied: Iterable[str]) -> dict[str, list[str]]:
        staged = f"{self._own}/staged/{run}"
        files = [
            place.split(f"/staged/{run}/", 1)[1]
            for what, keys in PARTITIONED_BY.items()
            for place in glob(self.spark, f"{staged}/{what}/{'*/' * len(keys)}*.parquet")
        ]
        folders = sorted({file.rsplit("/", 1)[0] for file in files} | set(emptied))
        replaced = [place for folder in folders for place in glob(self.spark, f"{self.path}/{folder}/*.parquet")]
        return {"put": files, "remove": [place.rsplit("/", 1)[1] for place in replaced], "in": folders}

    def recover(self) -> None:
        """Finish the change that a journal tells of, if there is one. May be broken off and begun again anywhere.

        A journal that is not of the next version is of a run that came too late, or of one that is done but for its
        journal: it is only taken away. So is all that is staged, since it is made of rows that are older now.
        """
        for journal in glob(self.spark, f"{self._own}/journal-*.json"):
            said = json.loads(read_bytes(self.spark, journal))
            version, outdated = said["state"]["version"], self._state_files()
            if version == self._version(outdated) + 1:
                self._put_into_place(said)
                move_once(self.spark, journal, f"{self._own}/state-{version:012}.json")
                for place in outdated:
                    remove(self.spark, place)
            remove(self.spark, journal)
            remove(self.spark, f"{self._own}/staged")

    def _put_into_place(self, said: dict[str, Any]) -> None:
        outdated = set(said["remove"])
        for folder in said["in"]:
            for place in glob(self.spark, f"{self.path}/{folder}/*.parquet"):
                if place.rsplit("/", 1)[1] in outdated:
                    remove(self.spark, place)
        for file in said["put"]:
            staged, place = f"{self._own}/staged/{said['run']}/{file}", f"{self.path}/{file}"
            # Names are given once: what has this one is this file, and must not be taken away to be put again.
            if exists(self.spark, staged) and not exists(self.spark, place):
                move(self.spark, staged, place)

    def forget_staged(self, run: str) -> None:
        """Remove what this run left if it died before it committed. Another's may still be at work."""
        self.recover()
        remove(self.spark, f"{self._own}/staged/{run}")

    def _state_files(self) -> list[str]:
        """Oldest first. The newest counts; a killed run may leave the one before beside it."""
        return glob(self.spark, f"{self._own}/state-*.json")

    @staticmethod
    def _version(files: Sequence[str]) -> int:
        return int(files[-1].rsplit("-", 1)[1].removesuffix(".json")) if files else 0

    @property
    def _own(self) -> str:
        return f"{self.path}/{_OWN}"

    def _journal(self, version: int) -> str:
        return f"{self._own}/journal-{version:012}.json"


def lake_folder(spark: SparkSession, path: str) -> LakeFolder:
    """A lake by its path, with its scheme where it has one. Raises InvalidField for none."""
    if not path.strip("/"):
        raise InvalidField("lake", f"{path!r} is no folder", "a path such as s3://bucket/lake")
    return LakeFolder(spark, path.rstrip("/"))
