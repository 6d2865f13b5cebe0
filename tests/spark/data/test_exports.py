"""Exports by their manifests, as AWS documents them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millrace.model.errors import InvalidField
from millrace.spark.data.exports import Export, read_export
from millrace.spark.data.lives import Views
from millrace.spark.data.read import views_of

#: As the developer guide shows them ("DynamoDB table export output format").
FULL = {
    "version": "2020-06-30",
    "exportArn": "arn:aws:dynamodb:us-east-1:123456789012:table/ProductCatalog/export/01234567890123-a1b2c3d4",
    "tableArn": "arn:aws:dynamodb:us-east-1:123456789012:table/ProductCatalog",
    "exportTime": "2020-11-04T07:28:34.028Z",
    "s3Bucket": "ddb-productcatalog-export",
    "s3Prefix": "2020-Nov",
    "manifestFilesS3Key": "AWSDynamoDB/01693685827463-2d8752fd/manifest-files.json",
    "itemCount": 8,
    "outputFormat": "DYNAMODB_JSON",
}
INCREMENTAL = {
    **{name: value for name, value in FULL.items() if name != "exportTime"},
    "exportFromTime": "2023-09-01T00:00:00.000Z",
    "exportToTime": "2023-09-02T00:00:00.000Z",
    "outputView": "NEW_AND_OLD_IMAGES",
    "exportType": "INCREMENTAL_EXPORT",
}
SECOND = 1_000_000


def files(*keys: str) -> bytes:
    return "".join(json.dumps({"itemCount": 1, "dataFileS3Key": key}) + "\n" for key in keys).encode()


def read(summary: dict[str, Any], *keys: str, folder: str = "s3://b/2020-Nov/AWSDynamoDB/0169-2d") -> Export:
    return read_export(folder, json.dumps(summary).encode(), files(*keys))


def test_a_full_export() -> None:
    export = read(FULL, "2020-Nov/AWSDynamoDB/0169-2d/data/x.json.gz")
    at = 1_604_474_914_028_000
    place = "s3://b/2020-Nov/AWSDynamoDB/0169-2d/data/x.json.gz"
    assert export == Export("0169-2d", "ProductCatalog", at, None, (place,))


def test_an_incremental_export_shares_its_folder_of_data() -> None:
    export = read(INCREMENTAL, "AWSDynamoDB/data/x.json.gz")
    assert (export.until - export.since) == 86_400 * SECOND  # type: ignore[operator]
    assert export.files == ("s3://b/2020-Nov/AWSDynamoDB/data/x.json.gz",)
    assert not export.full


def test_an_export_that_was_copied_elsewhere_is_found_beside_its_manifest() -> None:
    export = read(FULL, "2020-Nov/AWSDynamoDB/0169-2d/data/x.json.gz", folder="file:/data/copy")
    assert export.files == ("file:/data/copy/data/x.json.gz",)


@pytest.mark.parametrize("change", [{"outputFormat": "ION"}, {"outputView": "NEW_IMAGE"}])
def test_what_cannot_be_read_exactly_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(InvalidField, match=f"expected .*|{next(iter(change.values()))}"):
        read({**INCREMENTAL, **change})


def test_views_are_those_of_the_queue_table() -> None:
    exports = [
        Export("1", "queue", 5, None, ()),
        Export("2", "queue", 9, 5, ()),
        Export("3", "dead", 7, None, ()),
    ]
    assert views_of(exports, "queue") == Views((5,), ((5, 9),))


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_exports_are_found_below_a_path(spark: Any, tmp_path: Path) -> None:
    from millrace.spark.data.exports import find_exports

    for name in ("0169-aa", "0169-bb"):
        folder = tmp_path / "prefix" / "AWSDynamoDB" / name
        folder.mkdir(parents=True)
        (folder / "manifest-summary.json").write_text(json.dumps(FULL))
        (folder / "manifest-files.json").write_bytes(files(f"prefix/AWSDynamoDB/{name}/data/x.json.gz"))
    for path in (tmp_path / "prefix" / "AWSDynamoDB", tmp_path / "prefix", tmp_path):
        assert [export.name for export in find_exports(spark, str(path))] == ["0169-aa", "0169-bb"]
    (one,) = find_exports(spark, str(tmp_path / "prefix" / "AWSDynamoDB" / "0169-aa"))
    assert one.files[0].endswith("/prefix/AWSDynamoDB/0169-aa/data/x.json.gz")
    with pytest.raises(InvalidField, match="no manifest-summary"):
        find_exports(spark, str(tmp_path / "nowhere"))
