"""Large bodies in S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from millrace.model.errors import StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class S3Blobs:
    """Objects of one bucket. Its lifecycle rule removes them well past retention."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, key: str, data: bytes) -> None:
        try:
            self._client.put_object(Bucket=self._bucket, Key=key, Body=data)
        except (BotoCoreError, ClientError) as error:
            raise StoreUnavailable(f"The body could not be written to bucket {self._bucket!r}: {error}") from error

    def get(self, key: str) -> bytes:
        try:
            return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except (BotoCoreError, ClientError) as error:
            raise StoreUnavailable(f"The body could not be read from bucket {self._bucket!r}: {error}") from error
