"""What a neighbour can do to a local stack: another machine, another user of this one, a web page in its browser."""

from __future__ import annotations

import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from infra.local.dynamodb import REGION, DynamoDbLocal, _java_version, find_java, loopback_only
from infra.local.guarded_ministack import refusal
from infra.local.ministack import MiniStack
from infra.local.places import home_credentials
from infra.local.run import only_one
from millrace.model.clock import system_clock
from millrace.model.tokens import Scope, issue
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.dynamodb.tokens import DynamoTokens

TABLES = TableNames("millrace-queue", "millrace-dead-letters")


def _elsewhere() -> str:
    """An address of this machine that others reach it by; connecting to it sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def _tokens(url: str, keys: tuple[str, str]) -> DynamoTokens:
    return DynamoTokens(dynamodb_client(endpoint_url=url, region=REGION, keys=keys), TABLES.queue)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def own(home: Path) -> tuple[str, str]:
    kept = home_credentials(home)
    return kept["AWS_ACCESS_KEY_ID"], kept["AWS_SECRET_ACCESS_KEY"]


@pytest.fixture(scope="module")
def engine(home: Path, own: tuple[str, str]) -> Iterator[DynamoDbLocal]:
    with DynamoDbLocal(data=home / "dynamodb") as started:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", own[0])
            patch.setenv("AWS_SECRET_ACCESS_KEY", own[1])
            create_tables(TABLES, endpoint_url=started.url, region=REGION)
        yield started


def test_nobody_without_the_stacks_key_makes_an_operators_token(engine: DynamoDbLocal, own: tuple[str, str]) -> None:
    """The attack of a neighbour: an operator's token, written into the table of somebody's laptop."""
    given: Any = {"name": "x", "scopes": list(Scope), "tenants": ["*"], "clock": system_clock}
    issue(_tokens(engine.url, own), **given)
    for keys in (("local", "local"), ("guessed", own[1]), (own[0][:-1], own[1])):
        client: Any = dynamodb_client(endpoint_url=engine.url, region=REGION, keys=keys)
        assert client.list_tables()["TableNames"] == []
        with pytest.raises(ClientError, match="non-existent table"):
            client.put_item(TableName=TABLES.queue, Item={"pk": {"S": "TOKENS"}, "sk": {"S": "x"}})
    assert len(_tokens(engine.url, own).list_tokens()) == 1


def test_no_other_machine_is_answered(engine: DynamoDbLocal) -> None:
    address = _elsewhere()
    assert address, "this machine has an address besides the loopback"
    if not loopback_only(_java_version(find_java())):
        pytest.fail("this Java cannot close DynamoDB Local: run the tests with Java 17 to 23")
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    with socket.create_connection((address, engine.port), timeout=30) as stranger:
        try:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert stranger.recv(100) == b""
        except ConnectionError:
            pass


def test_s3_answers_the_stack_and_no_web_page(home: Path, own: tuple[str, str]) -> None:
    with MiniStack(services=("s3",), objects=home / "s3", access_key=own[0]) as started:
        bucket: Any = boto3.client(
            "s3",
            endpoint_url=started.url,
            region_name=REGION,
            aws_access_key_id=own[0],
            aws_secret_access_key=own[1],
        )
        bucket.create_bucket(Bucket="bodies", CreateBucketConfiguration={"LocationConstraint": REGION})
        bucket.put_object(Bucket="bodies", Key="k", Body=b"private")
        assert bucket.get_object(Bucket="bodies", Key="k")["Body"].read() == b"private"
        signed = {"Authorization": f"AWS4-HMAC-SHA256 Credential={own[0]}/20260101/{REGION}/s3/aws4_request"}
        for headers in ({}, {"Origin": "https://evil.example", **signed}, {"Host": "evil.example", **signed}):
            refused = httpx.get(f"{started.url}/bodies/k", headers=headers, timeout=30)
            assert refused.status_code == 403
            assert "Access-Control-Allow-Origin" not in refused.headers
            assert b"private" not in refused.content


@pytest.mark.parametrize(
    ("headers", "path", "why"),
    [
        ({"host": "127.0.0.1:1"}, "/", "no signature of this stack"),
        ({"host": "127.0.0.1:1"}, "/_ministack/health", ""),
        ({"host": "127.0.0.1:1", "origin": "null"}, "/_ministack/health", "a page of another origin"),
        ({"host": "evil.example:1"}, "/", "a foreign Host"),
        ({}, "/", "a foreign Host"),
        ({"host": "localhost:1", "authorization": "AWS4 Credential=key/2026/x"}, "/b", ""),
        ({"host": "localhost:1", "authorization": "AWS4 Credential=key2/2026/x"}, "/b", "no signature of this stack"),
    ],
)
def test_why_a_request_is_refused(headers: dict[str, str], path: str, why: str) -> None:
    assert refusal(headers, path, "key") == why


def test_the_folder_and_its_credentials_are_the_owners_alone(tmp_path: Path) -> None:
    home = tmp_path / ".local"
    home.mkdir(mode=0o755)
    with only_one(home):
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
    made = home_credentials(home)
    assert stat.S_IMODE((home / "credentials.json").stat().st_mode) == 0o600
    assert made == home_credentials(home), "the same for the folder's life: the data lies under its key"
    assert made["AWS_ACCESS_KEY_ID"] != home_credentials(tmp_path / "other")["AWS_ACCESS_KEY_ID"]
    assert len(made["AWS_ACCESS_KEY_ID"]) >= 32
    assert made["AWS_ACCESS_KEY_ID"].isalnum(), "DynamoDB Local takes letters and digits"
    assert json.loads((home / "credentials.json").read_text("utf-8"))["AWS_SECRET_ACCESS_KEY"]


def test_a_java_that_knows_no_policy_is_started_without() -> None:
    assert loopback_only(17)
    assert loopback_only(24) == []
