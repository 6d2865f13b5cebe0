"""Presigned URLs on an S3 that checks signatures and checksums: the local stack's."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from infra.local.dynamodb import REGION
from infra.local.guarded_ministack import presigned_by
from infra.local.ministack import MiniStack
from millrace.aws.uploads import S3Uploads
from millrace.model.clock import system_clock
from millrace.model.errors import BodyLost, StoreUnavailable
from millrace.model.message import StoredBody
from millrace.model.uploads import UPLOAD_LIFE_MS, UploadTicket, upload_of

OWN, URLS = ("stack-key", "stack-secret"), ("url-key", "url-secret")
BUCKET = "bodies"
DATA = random.Random(7).randbytes(300_000)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    urls = {"URL_ACCESS_KEY_ID": URLS[0], "URL_SECRET_ACCESS_KEY": URLS[1]}
    folder = tmp_path_factory.mktemp("s3")
    with MiniStack(services=("s3",), objects=folder, access_key=OWN[0], urls=urls) as started:
        client = own_client(started.url)
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        yield started.url


def own_client(url: str) -> Any:
    return boto3.client(
        "s3", endpoint_url=url, region_name=REGION, aws_access_key_id=OWN[0], aws_secret_access_key=OWN[1]
    )


@pytest.fixture
def uploads(s3: str, monkeypatch: pytest.MonkeyPatch) -> S3Uploads:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", OWN[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", OWN[1])
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials that it met first
    signer = {"access_key": URLS[0], "secret_key": URLS[1]}
    return S3Uploads(BUCKET, region=REGION, endpoint_url=s3, signer=signer)


def upload(data: bytes = DATA, holder: str = "t1") -> StoredBody:
    return upload_of("t", "Q", holder, sha256(data).digest(), len(data))


def transfer(ticket: UploadTicket, data: bytes, **headers: str) -> httpx.Response:
    sent = {**ticket.headers, "Content-Length": str(len(data)), **headers}
    return httpx.request(ticket.method, ticket.url, content=data, headers=sent, timeout=60)


def test_an_upload_is_transferred_copied_and_downloaded(uploads: S3Uploads) -> None:
    body = upload()
    assert not uploads.holds(body, system_clock())
    assert transfer(uploads.ticket(body), DATA).status_code == 200
    assert uploads.holds(body, system_clock())
    uploads.copy(body.place, "t/Q/id/hash")
    assert httpx.get(uploads.link("t/Q/id/hash"), timeout=60).content == DATA
    part = httpx.get(uploads.link("t/Q/id/hash"), headers={"Range": "bytes=10-19"}, timeout=60)
    assert (part.status_code, part.content) == (206, DATA[10:20])
    assert uploads.part("t/Q/id/hash", 10, 19) == DATA[10:20]


def test_other_bytes_are_refused_and_what_was_there_stays(uploads: S3Uploads) -> None:
    """Also after the message was committed: whoever kept the URL can write the same bytes again, and no others."""
    body = upload(holder="tampered")
    ticket = uploads.ticket(body)
    assert transfer(ticket, DATA).status_code == 200
    other = bytes(len(DATA))
    checksum = {"x-amz-checksum-sha256": "0" * 43 + "="}
    refused = [
        transfer(ticket, other),  # other bytes under the signed checksum
        transfer(ticket, other, **checksum),  # another checksum than was signed
        transfer(ticket, DATA[:-1]),  # another length than was signed
        httpx.put(ticket.url, content=other, timeout=60),  # none of the headers
        httpx.put(ticket.url.replace("tampered", "stolen"), content=DATA, headers=ticket.headers, timeout=60),
        httpx.delete(ticket.url, timeout=60),
        httpx.get(ticket.url, timeout=60),
    ]
    assert [answer.status_code for answer in refused] == [400, 403, 403, 403, 403, 403, 403]
    assert uploads.holds(body, system_clock())
    assert not uploads.holds(upload(holder="stolen"), system_clock())


def test_a_url_shows_nothing_that_opens_more(uploads: S3Uploads, s3: str) -> None:
    url = uploads.ticket(upload()).url
    assert URLS[0] in url
    assert OWN[0] not in url
    header = f"AWS4-HMAC-SHA256 Credential={URLS[0]}/20260101/{REGION}/s3/aws4_request"
    assert httpx.get(f"{s3}/{BUCKET}", headers={"Authorization": header}, timeout=60).status_code == 403
    forged = S3Uploads(BUCKET, region=REGION, endpoint_url=s3, signer={"access_key": URLS[0], "secret_key": "guess"})
    assert transfer(forged.ticket(upload()), DATA).status_code == 403


def test_a_url_ends_with_its_time(uploads: S3Uploads) -> None:
    url = httpx.URL(uploads.link("t/Q/id/hash"))
    asked = (URLS, "GET", url.raw_path.partition(b"?")[0], url.query, {"host": url.netloc.decode()})
    now = datetime.now(UTC)
    assert presigned_by(*asked, now.timestamp())
    assert presigned_by(*asked, (now + timedelta(minutes=14, seconds=50)).timestamp())
    assert not presigned_by(*asked, (now + timedelta(minutes=15, seconds=1)).timestamp())
    assert not presigned_by(*asked, (now - timedelta(minutes=2)).timestamp())
    assert not presigned_by(*asked[:3], url.query + b"&x=1", asked[4], now.timestamp())
    assert not presigned_by(*asked[:3], b"", asked[4], now.timestamp())


def test_what_is_too_old_or_was_put_without_a_checksum_is_no_upload(uploads: S3Uploads, s3: str) -> None:
    body = upload(holder="other")
    own_client(s3).put_object(Bucket=BUCKET, Key=body.place, Body=DATA)
    assert not uploads.holds(body, system_clock()), "nobody vouches for what is in it"
    assert transfer(uploads.ticket(body), DATA).status_code == 200
    assert uploads.holds(body, system_clock() + UPLOAD_LIFE_MS - 60_000)
    assert not uploads.holds(body, system_clock() + UPLOAD_LIFE_MS + 1_000)


def test_what_is_not_there_is_lost_and_any_other_error_is_the_stores(uploads: S3Uploads) -> None:
    with pytest.raises(BodyLost):
        uploads.copy("nothing", "t/Q/id/hash2")
    with pytest.raises(BodyLost):
        uploads.part("nothing", 0, 1)
    with mock_aws(), pytest.raises((StoreUnavailable, ClientError)):
        S3Uploads("no-such-bucket", region=REGION).copy("a", "b")


def test_a_transfer_of_megabytes(uploads: S3Uploads, tmp_path: Path) -> None:
    """UPLOAD_MEGABYTES=100 for the largest that there is."""
    data = random.Random(1).randbytes(int(os.environ.get("UPLOAD_MEGABYTES", "2")) * 1024 * 1024)
    body = upload(data)
    got = transfer(uploads.ticket(body), data)
    assert got.status_code == 200, got.text
    uploads.copy(body.place, "t/Q/large/hash")
    (tmp_path / "got").write_bytes(httpx.get(uploads.link("t/Q/large/hash"), timeout=600).content)
    assert sha256((tmp_path / "got").read_bytes()).digest() == body.sha256
