"""AWS as the functions meet it: DynamoDB Local for the tables, memory for the rest; every call is noted.

A call is noted as what IAM would check for it: actions, and the resource by its logical id in the template.
"""

from __future__ import annotations

import io
import json
import re
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from millrace.model.body import Blobs
from millrace.stores.dynamodb import side_by_side
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.minimal_client import MinimalClient
from millrace.stores.memory.keys import MemoryKeys
from millrace.stores.memory.queue import MemoryBlobs

STACK = "millrace"
BUCKET = "bodies"
SECRET = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ADAPTER = "/millrace/stores/dynamodb/"
PLUMBING = ("retrying_client.py", "minimal_client.py", "client.py")
WRITES = {"Put": "PutItem", "Delete": "DeleteItem", "Update": "UpdateItem", "ConditionCheck": "ConditionCheckItem"}
PARTITION = re.compile(r"[QMSH]#|[A-Z_]{5,}$")
STATEMENT = re.compile(r'(INSERT|UPDATE|DELETE|SELECT)\b.*?"([^"]+)"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Need:
    """What IAM would check for a call."""

    action: str  #: `dynamodb:PutItem`
    resource: str  #: logical id, with `/*` for what is inside
    partition: str = ""  #: the leading key, for DynamoDB, as a role would name it: `Q#*`, `QUEUES`


@dataclass
class Cloud:
    """Answers and notes."""

    tables: TableNames
    needs: set[Need] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)  #: of the adapter, that made a call
    scanned: set[str] = field(default_factory=set)  #: attributes that a scan asks for
    keys: MemoryKeys = field(default_factory=MemoryKeys)
    _objects: dict[str, bytes] = field(default_factory=dict)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Every client of this process, boto3's and the minimal one."""
        minimal, boto = MinimalClient._send, BaseClient._make_api_call  # type: ignore[attr-defined]

        def minimal_send(client: MinimalClient, operation: str, arguments: dict[str, Any]) -> Any:
            self._note("dynamodb", operation, arguments)
            return minimal(client, operation, arguments)

        def boto_call(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
            service = client.meta.service_model.service_name
            self._note(service, operation, arguments)
            if service == "dynamodb":
                return boto(client, operation, arguments)
            return self._answer(operation, arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MinimalClient, "_send", minimal_send)
            patch.setattr(BaseClient, "_make_api_call", boto_call)
            # In another thread nothing tells which method of the adapter asked.
            patch.setattr(side_by_side, "ABREAST", 1)
            yield

    def blobs(self) -> Blobs:
        """The bucket for those who prepare the stage; their calls are nobody's."""
        blobs = MemoryBlobs()
        blobs.objects = self._objects
        return blobs

    def _note(self, service: str, operation: str, arguments: Mapping[str, Any]) -> None:
        if threading.current_thread().name.startswith("job-"):
            return  # another test's stack in this process still has an admin job at work
        if service == "dynamodb":
            self.needs.update(self._of_table(operation, arguments))
            self.methods.add(_method())
        elif service == "lambda":
            self.needs.add(Need("lambda:InvokeFunction", _function(arguments["FunctionName"])))
        elif service == "s3":
            assert arguments["Bucket"] == BUCKET
            for action in {"HeadObject": ["GetObject"], "CopyObject": ["GetObject", "PutObject"]}.get(
                operation, [operation]
            ):
                self.needs.add(Need(f"s3:{action}", "BodyBucket/*"))
            if operation in (
                "GetObject",
                "HeadObject",
            ):  # of an object that is gone, S3 says so only to those who may list
                self.needs.add(Need("s3:ListBucket", "BodyBucket"))
        elif service == "kms":
            assert set(arguments["EncryptionContext"]) == {"tenant", "queue"}, "what the roles' condition asks for"
            self.needs.add(Need(f"kms:{operation}", "EncryptionKeys"))
        else:
            named = arguments["SecretId" if service == "secretsmanager" else "Name"]
            self.needs.add(Need(f"{service}:{operation}", named.rpartition(":")[2]))

    def _of_table(self, operation: str, arguments: Mapping[str, Any]) -> Iterator[Need]:
        if operation == "BatchGetItem":
            for table, asked in arguments["RequestItems"].items():
                yield from (self._need(operation, table, key["pk"]["S"]) for key in asked["Keys"])
        elif operation == "TransactWriteItems":
            for item in arguments["TransactItems"]:
                ((kind, write),) = item.items()
                if write["TableName"] not in self.tables:
                    continue  # an app's own, which its own template allows
                yield self._need(WRITES[kind], write["TableName"], (write.get("Key") or write["Item"])["pk"]["S"])
        elif operation == "BatchExecuteStatement":
            for statement in arguments["Statements"]:
                found = STATEMENT.match(statement["Statement"])
                assert found, statement
                texts = [value["S"] for value in statement["Parameters"] if "S" in value]
                partition = next(text for text in texts if PARTITION.match(text))
                yield self._need(f"PartiQL{found[1].capitalize()}", found[2], partition)
        elif operation == "Scan":
            assert arguments["Select"] == "SPECIFIC_ATTRIBUTES", "a scan names what it wants to see"
            self.scanned |= set(arguments["ExpressionAttributeNames"].values())
            yield Need("dynamodb:Scan", "QueueTable")
        elif operation == "Query":
            yield self._need(operation, arguments["TableName"], arguments["ExpressionAttributeValues"][":pk"]["S"])
        else:
            key = arguments["Item"] if operation == "PutItem" else arguments["Key"]
            yield self._need(operation, arguments["TableName"], key["pk"]["S"])

    def _need(self, action: str, table: str, partition: str) -> Need:
        resource = {self.tables.queue: "QueueTable", self.tables.dead_letters: "DeadLetterTable"}[table]
        return Need(f"dynamodb:{action}", resource, _kind(partition))

    def _answer(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "PutObject":
            self._objects[arguments["Key"]] = bytes(arguments["Body"])
        elif operation == "DeleteObject":
            self._objects.pop(arguments["Key"], None)
        elif operation == "GetObject":
            return {"Body": io.BytesIO(self._objects[arguments["Key"]])}
        elif operation == "CopyObject":
            self._objects[arguments["Key"]] = self._objects[arguments["CopySource"]["Key"]]
        elif operation == "HeadObject":
            return self._head(self._objects.get(arguments["Key"]))
        elif operation == "GenerateDataKey":
            made = self.keys.generate(arguments["KeyId"], arguments["EncryptionContext"])
            return {"KeyId": made.key_id, "CiphertextBlob": made.wrapped, "Plaintext": made.secret}
        elif operation == "Decrypt":
            wrapped, context = arguments["CiphertextBlob"], arguments["EncryptionContext"]
            return {"Plaintext": self.keys.unwrap(arguments["KeyId"], wrapped, context)}
        elif operation == "GetSecretValue":
            # One JSON for all: secrets by name, or the bare secret that signs http targets without one of their own.
            kept = {"TargetSecretArn": f"whsec_{SECRET}", "SecretArns": SECRET}
            text = kept.get(
                arguments["SecretId"].rpartition(":")[2],
                json.dumps({"GITHUB_WEBHOOK_SECRET": SECRET, "PARTNER_SECRET": f"whsec_{SECRET}"}),
            )
            return {"SecretString": text}
        elif operation == "GetParameter":
            return {"Parameter": {"Value": SECRET}}
        else:
            assert operation == "Invoke", operation
        return {"StatusCode": 200, "Payload": io.BytesIO(b"{}")}

    def transfer(self, url: str, content: bytes) -> None:
        """What a sender does by a presigned URL, whose signer's rights are the function's own."""
        self._objects[urlsplit(url).path.removeprefix(f"/{BUCKET}").removeprefix("/")] = content

    def _head(self, content: bytes | None) -> dict[str, Any]:
        if content is None:
            raise ClientError({"Error": {"Code": "404"}}, "HeadObject")
        checksum = b64encode(sha256(content).digest()).decode()
        return {"ContentLength": len(content), "ChecksumSHA256": checksum, "LastModified": datetime.now(UTC)}


def _kind(partition: str) -> str:
    kind, numbered, _ = partition.partition("#")
    return f"{kind}#*" if numbered else kind


def _function(name: str) -> str:
    """A function of the stack by its own name; any other is one that the operator named."""
    return f"function:{name}" if name.startswith(f"{STACK}-") else "TargetFunctionArns"


def _method() -> str:
    """The adapter's method that asked for the call: `entries.claim_entries`."""
    frame: Any = sys._getframe(2)
    found = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if ADAPTER in file and not file.endswith(PLUMBING):
            found = frame.f_code.co_name
        frame = frame.f_back
    return found
