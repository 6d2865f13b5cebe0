"""Uploads and downloads by presigned URLs, in the bucket of large bodies.

A URL for an upload is bound to its length and its SHA-256: S3 takes these bytes or none. A URL carries the rights of
whoever signed it, cut to one object and a quarter of an hour.
"""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from millrace.aws.s3_client import s3_client
from millrace.model.errors import BodyLost, StoreUnavailable
from millrace.model.uploads import UPLOAD_LIFE_MS, URL_LIFE_MS, UploadTicket

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from millrace.model.message import StoredBody

T = TypeVar("T")
#: S3's copy of 100 MB answers within seconds; a function of the API has 29.
TRANSFER_S = 15.0
#: The roles may list the bucket, so that what is not there is a 404.
_MISSING = frozenset({"NoSuchKey", "404"})


class S3Uploads:
    """Objects of one bucket; the client is made with the first one.

    `signer` names other credentials to sign URLs with, where the process's own must not be seen: a URL shows the id
    of its access key.
    """

    def __init__(
        self,
        bucket: str,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        signer: Mapping[str, str] | None = None,
    ) -> None:
        self._bucket = bucket
        self._where = {"region": region, "endpoint_url": endpoint_url}
        self._signer_keys = dict(signer or {})
        self._making = threading.Lock()
        self._clients: dict[str, S3Client] = {}

    def ticket(self, body: StoredBody) -> UploadTicket:
        checksum = b64encode(body.sha256).decode()
        url = self._signer().generate_presigned_url(
            "put_object",
            Params={
                "Bucket": self._bucket,
                "Key": body.place,
                "ContentLength": body.size,
                "ChecksumSHA256": checksum,
            },
            ExpiresIn=URL_LIFE_MS // 1000,
        )
        return UploadTicket(url, {"Content-Length": str(body.size), "x-amz-checksum-sha256": checksum})

    def holds(self, body: StoredBody, now: int) -> bool:
        try:
            found = self._asked(
                "looked up", lambda s3: s3.head_object(Bucket=self._bucket, Key=body.place, ChecksumMode="ENABLED")
            )
        except BodyLost:
            return False
        age = now - int(found["LastModified"].timestamp() * 1000)
        same = found["ContentLength"] == body.size and found.get("ChecksumSHA256") == b64encode(body.sha256).decode()
        return same and age < UPLOAD_LIFE_MS

    def copy(self, place: str, blob: str) -> None:
        source = {"Bucket": self._bucket, "Key": place}
        self._asked("copied", lambda s3: s3.copy_object(Bucket=self._bucket, Key=blob, CopySource=source))  # type: ignore[arg-type]

    def link(self, blob: str) -> str:
        return self._signer().generate_presigned_url(
            "get_object",
            Params={"Bucket": self._bucket, "Key": blob, "ResponseContentDisposition": "attachment"},
            ExpiresIn=URL_LIFE_MS // 1000,
        )

    def part(self, blob: str, first: int, last: int) -> bytes:
        span = f"bytes={first}-{last}"
        return self._asked("read", lambda s3: s3.get_object(Bucket=self._bucket, Key=blob, Range=span)["Body"].read())

    def _asked(self, deed: str, ask: Callable[[S3Client], T]) -> T:
        client = self._client("own")
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return ask(client)
        except (BotoCoreError, ClientError) as error:
            code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
            if code in _MISSING:
                raise BodyLost(f"Bucket {self._bucket!r} has no such object.") from error
            raise StoreUnavailable(f"An upload could not be {deed} in bucket {self._bucket!r}: {error}") from error

    def _signer(self) -> S3Client:
        return self._client("signer" if self._signer_keys else "own")

    def _client(self, which: str) -> S3Client:
        with self._making:
            if which not in self._clients:
                keys = self._signer_keys if which == "signer" else {}
                self._clients[which] = s3_client(read_s=TRANSFER_S, attempts=1, **self._where, **keys)
            return self._clients[which]
