"""An account to deploy to: MiniStack, the SAM CLI in its own environment, and what a caller of the API needs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3

from infra.local.dynamodb import CREDENTIALS, REGION, ROOT
from infra.local.tour import call
from millrace.aws.stored_secrets import StoredSecrets
from millrace.model.clock import system_clock
from millrace.model.tokens import ANY_TENANT, Scope, issue
from millrace.signatures import Secret
from millrace.signatures.presets import scheme_from
from millrace.signatures.signing import deliver
from millrace.stores.dynamodb.client import dynamodb_client
from millrace.stores.dynamodb.tokens import DynamoTokens

SAM = ROOT / ".venv-sam" / "bin" / "sam"
ARTIFACTS = "artifacts"
#: MiniStack runs functions with its own Python on this machine, so they are built for that.
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MACHINE = {"x86_64": "x86_64", "aarch64": "arm64"}[platform.machine()]
PARAMETERS = f"Runtime=python{PYTHON} Architecture={MACHINE} DeletionProtection=false LogDays=7"
PATIENCE_S = 180
SECRET = "what PagerDuty signs with"


def sam(*arguments: str, endpoint: str = "") -> str:
    """Run the SAM CLI from the checkout; what it says."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {**CREDENTIALS, "SAM_CLI_TELEMETRY": "0"}
    if endpoint:
        environment["AWS_ENDPOINT_URL"] = endpoint
    done = subprocess.run(
        [str(SAM), *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"sam {' '.join(arguments)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def until(probe: Callable[[], Any], what: str) -> Any:
    """The first true answer of a probe."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := probe():
            return found
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within {PATIENCE_S} s")


class Deployment:
    """One stack in the account, called over HTTP as a provider or an operator would."""

    def __init__(self, name: str, endpoint: str, build: Path) -> None:  # `build`: a template with its artifacts
        self.name = name
        self.endpoint = endpoint
        self._template = str(build)

    def client(self, service: str) -> Any:
        return boto3.client(service, endpoint_url=self.endpoint, region_name=REGION)  # type: ignore[call-overload]

    def deploy(self) -> str:
        return sam(
            "deploy", "--template-file", self._template, "--stack-name", self.name, "--s3-bucket", ARTIFACTS,
            "--no-resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-progressbar",
            "--no-fail-on-empty-changeset", "--parameter-overrides", PARAMETERS, endpoint=self.endpoint,
        )  # fmt: skip

    def delete(self) -> None:
        sam("delete", "--stack-name", self.name, "--no-prompts", "--region", REGION, endpoint=self.endpoint)

    @property
    def outputs(self) -> dict[str, str]:
        (stack,) = self.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    def resources(self) -> dict[str, Any]:
        pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self.name)
        return {found["LogicalResourceId"]: found for page in pages for found in page["StackResourceSummaries"]}

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, Any]:
        """Over the HTTP API, which MiniStack tells apart by the host's name."""
        host = self.outputs["ApiUrl"].partition("//")[2]
        return call(method, f"{self.endpoint}{path}", {**headers, "host": host}, body)

    def set_secret(self, name: str, value: str) -> None:
        """As `millrace secrets set` does."""
        stored = StoredSecrets(self.outputs["WebhookSecretsName"], self.client("secretsmanager"))
        stored.write({**stored.read(), name: value})

    def webhook(self, incident: str, *, secret: str | None = None) -> tuple[int, Any]:
        key = Secret("provider", secret or SECRET)
        data = {"id": incident, "title": "High water", "urgency": "high"}
        body = json.dumps({"event": {"event_type": "incident.triggered", "data": data}}).encode()
        signed = deliver(scheme_from({"provider": "pagerduty"}), key, self.endpoint, body, system_clock())
        headers = {name: signed.headers.one(name) for name in signed.headers}
        return self.request("POST", "/hook/PagerDutyAlert", headers, body)

    def token(self) -> dict[str, str]:
        tokens = DynamoTokens(
            dynamodb_client(endpoint_url=self.endpoint, region=REGION), self.outputs["QueueTableName"]
        )
        _, text = issue(tokens, name="test", scopes=list(Scope), tenants=[ANY_TENANT], clock=system_clock)
        return {"authorization": f"Bearer {text}"}

    def done(self, message_id: str, token: dict[str, str]) -> dict[str, Any]:
        """A message once it is done and its result is written."""

        def look() -> Any:
            status, found = self.request("GET", f"/v1/queues/WebhookIngress/messages/{message_id}", token)
            return found if status == 200 and found["status"] == "done" and found["finished_at"] else None

        found: dict[str, Any] = until(look, f"message {message_id} done")
        return found
