"""Large bodies in S3."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from millrace.aws.s3_client import s3_client
from millrace.model.errors import BodyLost, StoreUnavailable

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_s3 import S3Client

ACCESS_DENIED = "AccessDenied"


class S3Blobs:
    """Objects of one bucket. Its lifecycle rule removes them well past retention.

    Few bodies are that large, so boto3 is imported and the client made with the first one.
    """

    def __init__(
        self,
        bucket: str,
        client: S3Client | None = None,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
    ) -> None:
        self._bucket = bucket
        self._client = client
        self._region = region
        self._endpoint_url = endpoint_url
        self._making = threading.Lock()  # boto3 makes clients for one thread at a time

    def put(self, key: str, data: bytes) -> None:
        client = self._connected()
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            client.put_object(Bucket=self._bucket, Key=key, Body=data)
        except (BotoCoreError, ClientError) as error:
            raise StoreUnavailable(f"The body could not be written to bucket {self._bucket!r}: {error}") from error

    def get(self, key: str) -> bytes:
        client = self._connected()
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except (BotoCoreError, ClientError) as error:
            if isinstance(error, ClientError) and self._is_lost(client, key, error):
                raise BodyLost(f"Bucket {self._bucket!r} has no body {key!r}.") from error
            raise StoreUnavailable(f"The body could not be read from bucket {self._bucket!r}: {error}") from error

    def delete(self, key: str) -> None:
        client = self._connected()
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            client.delete_object(Bucket=self._bucket, Key=key)
        except (BotoCoreError, ClientError) as error:
            raise StoreUnavailable(f"The body could not be deleted from bucket {self._bucket!r}: {error}") from error

    def _is_lost(self, client: S3Client, key: str, error: ClientError) -> bool:
        """Where listing is not allowed, S3 says AccessDenied of an object that is not there."""
        from botocore.exceptions import BotoCoreError, ClientError

        code = error.response["Error"]["Code"]
        if code != ACCESS_DENIED:
            return code == "NoSuchKey"
        try:
            found = client.list_objects_v2(Bucket=self._bucket, Prefix=key, MaxKeys=1)
        except ClientError as refusal:
            return refusal.response["Error"]["Code"] == ACCESS_DENIED
        except BotoCoreError:
            return False
        return not found.get("Contents")

    def _connected(self) -> S3Client:
        with self._making:
            if self._client is None:
                self._client = s3_client(endpoint_url=self._endpoint_url, region=self._region)
            return self._client
