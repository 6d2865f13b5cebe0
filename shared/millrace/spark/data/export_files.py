"""The files of exports, opened by a task itself: from a disk or from S3, by Arrow's own file systems."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from millrace.model.errors import InvalidField
from millrace.spark.data.exports import FILES, ROOT, SUMMARY, Export, read_export

#: Spark's names for S3.
_S3 = ("s3a://", "s3n://")
#: Compressed bytes of exports that one task takes on.
BYTES_PER_TASK = 64 * 1024 * 1024
MAX_TASKS = 32


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file, and the time of the full export that it is of (microseconds)."""

    path: str
    at: int
    s3_endpoint: str | None = None


def find_export_files(paths: Sequence[str], s3_endpoint: str | None = None) -> list[Export]:
    """The exports at or below these paths, oldest first, as `find_exports` finds them. Raises InvalidField for none."""
    found: dict[str, Export] = {}
    for path in paths:
        folders = _folders(path.rstrip("/"), s3_endpoint)
        if not folders:
            raise InvalidField("export", f"no {SUMMARY} in {path}", "the folder of a finished DynamoDB export")
        for folder in folders:
            summary, files = (_read(f"{folder}/{name}", s3_endpoint) for name in (SUMMARY, FILES))
            export = read_export(folder, summary, files)
            found[export.name] = export
    return sorted(found.values(), key=lambda export: (export.until, export.name))


def task_count(exports: Sequence[Export], s3_endpoint: str | None = None) -> int:
    """Few tasks: each of them reads all files."""
    size = sum(_info(place, s3_endpoint).size or 0 for export in exports for place in export.files)
    return min(MAX_TASKS, 1 + size // BYTES_PER_TASK)


def read_text(file: ExportFile) -> Iterator[str]:
    """The lines of a file, unpacked."""
    system, place = _system(file.path, file.s3_endpoint)
    with system.open_input_stream(place, compression=None) as stream:
        unpacked: Any = gzip.GzipFile(fileobj=stream) if place.endswith(".gz") else stream
        yield from io.TextIOWrapper(unpacked, encoding="utf-8", errors="replace", newline="\n")


def _folders(base: str, s3_endpoint: str | None) -> list[str]:
    """Where exports lie: the path is one, or holds some (its prefix, or the folder `AWSDynamoDB`)."""
    root = ROOT.rstrip("/")
    below = _children(base, s3_endpoint)
    near = [base, *below, *_children(f"{base}/{root}", s3_endpoint)]
    far = [folder for child in below for folder in _children(f"{child}/{root}", s3_endpoint)]
    candidates = list(dict.fromkeys([*near, *far]))
    return [folder for folder in candidates if _info(f"{folder}/{SUMMARY}", s3_endpoint).type == fs.FileType.File]


def _children(folder: str, s3_endpoint: str | None) -> list[str]:
    system, place = _system(folder, s3_endpoint)
    found = system.get_file_info(fs.FileSelector(place, allow_not_found=True))
    return sorted(f"{folder}/{info.base_name}" for info in found if info.type == fs.FileType.Directory)


def _read(path: str, s3_endpoint: str | None) -> bytes:
    system, place = _system(path, s3_endpoint)
    with system.open_input_stream(place, compression=None) as stream:
        return bytes(stream.read())


def _info(path: str, s3_endpoint: str | None) -> Any:
    system, place = _system(path, s3_endpoint)
    return system.get_file_info(place)


def _system(path: str, s3_endpoint: str | None) -> tuple[Any, str]:
    for scheme in _S3:
        path = path.replace(scheme, "s3://", 1) if path.startswith(scheme) else path
    if path.startswith("s3://") and s3_endpoint:
        return fs.S3FileSystem(endpoint_override=s3_endpoint), path.removeprefix("s3://")
    if path.startswith("s3://"):
        system, place = fs.FileSystem.from_uri(path)
        return system, str(place)
    return fs.LocalFileSystem(), path.removeprefix("file://")
