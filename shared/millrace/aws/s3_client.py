"""The client of the bucket: made with the first large body, with time-outs that fit into a function's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CONNECT_S = 1.0
#: Between two packets. With two tries and a pause a request that gets no answer has failed after 9 seconds at most,
#: within the least time-out of a function that has bodies to write.
READ_S = 3.0
ATTEMPTS = 2


def s3_client(
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
    read_s: float = READ_S,
    attempts: int = ATTEMPTS,
) -> S3Client:
    """Region, credentials and endpoint from the environment, unless given. Imports boto3: few processes need it."""
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=read_s,
        retries={"mode": "standard", "total_max_attempts": attempts},
        signature_version="s3v4",
        s3={"addressing_style": "virtual"},  # URLs of the bucket's own region; an endpoint by number has paths anyway
    )
    return boto3.client(
        "s3",
        endpoint_url=endpoint_url,
        region_name=region,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=config,
    )


def put_new_object(bucket: str, key: str, data: bytes) -> bool:
    """Put an object where there is none: of many that try at once, one gets True.

    A try without an answer may have put it, and a repeat is then told that there is one: look at what is there.
    """
    from botocore.exceptions import ClientError

    try:
        s3_client().put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
    except ClientError as error:
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (409, 412):
            return False
        raise
    return True
