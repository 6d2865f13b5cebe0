"""Where the local stack keeps things, and what its functions get as their environment.

Everything lies under `.local/`, which git ignores: tables, large bodies, secrets and the development token (readable
by you only), logs. Delete the folder to start afresh.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.local.dynamodb import CREDENTIALS
from infra.local.template import Function, Reference, Template
from millrace.app.layout import App
from millrace.app.registered import command_modules
from millrace.app.secrets import SECRETS, LocalSecrets, secret_names, write_privately
from millrace.app.template import own_defaults, own_variables
from millrace.model.queue_spec import DEFAULT_TENANT
from millrace.worker.prometheus import has_prometheus

#: Local names of the template's resources.
RESOURCES = {
    "QueueTable": "millrace-queue",
    "DeadLetterTable": "millrace-dead-letters",
    "BodyBucket": "millrace-bodies",
}
CREDENTIALS_FILE = "credentials.json"


def home_credentials(home: Path) -> dict[str, str]:
    """The credentials of a folder's table and bucket: made up once, readable by you only.

    DynamoDB Local has a database for each access key, so nobody finds ours who does not know it.
    """
    path = home / CREDENTIALS_FILE
    if not path.exists():
        made = {"AWS_ACCESS_KEY_ID": f"local{secrets.token_hex(16)}", "AWS_SECRET_ACCESS_KEY": secrets.token_hex(20)}
        write_privately(path, json.dumps(made, indent=2) + "\n")
    return {**CREDENTIALS, **json.loads(path.read_text("utf-8"))}


def url_credentials(credentials: Mapping[str, str]) -> dict[str, str]:
    """What signs the URLs of uploads and downloads: they show their access key, so that is not the table's."""
    secret = hmac.digest(credentials["AWS_SECRET_ACCESS_KEY"].encode(), b"millrace urls", "sha256").hex()
    return {"URL_ACCESS_KEY_ID": "local-urls", "URL_SECRET_ACCESS_KEY": secret}


@dataclass(frozen=True, slots=True)
class Places:
    """The folder and the addresses of one local stack, and the app that runs in it."""

    app: App
    home: Path
    dynamodb_url: str
    s3_url: str
    overrides: Mapping[str, str] = field(default_factory=dict)  #: in place of what the template gives
    credentials: Mapping[str, str] = field(default_factory=lambda: CREDENTIALS, repr=False)  #: of table and bucket

    def publish(self, url: str) -> None:
        """Write down where the API and its table are, for `millrace` in this folder (see `millrace.cli.local`)."""
        table = {
            "name": RESOURCES["QueueTable"],
            "endpoint_url": self.dynamodb_url,
            "region": self.credentials["AWS_DEFAULT_REGION"],
            "access_key": self.credentials["AWS_ACCESS_KEY_ID"],
            "secret_key": self.credentials["AWS_SECRET_ACCESS_KEY"],
            "dead_letters": RESOURCES["DeadLetterTable"],
            "bucket": RESOURCES["BodyBucket"],
            "s3_endpoint_url": self.s3_url,
            "default_tenant": self.default_tenant,
        }
        (self.home / "url").write_text(f"{url}\n", "utf-8")
        write_privately(self.home / "table.json", json.dumps(table, indent=2) + "\n")

    @property
    def default_tenant(self) -> str:
        """As the functions know it."""
        return str(self.overrides.get("DEFAULT_TENANT") or own_defaults(self.app).get("DefaultTenant", DEFAULT_TENANT))

    def environment(self, function: Function, template: Template, *, in_process: bool) -> dict[str, str]:
        """What the template gives a function, with local things in place of AWS's."""
        given = {name: self._local(value, template) for name, value in function.environment.items()}
        referring = {name for name, value in function.environment.items() if isinstance(value, Reference)}
        own = own_variables(self.app, function.name, os.environ)
        given |= {name: value for name, value in own.items() if name not in referring}
        local = {
            **self.credentials,
            **url_credentials(self.credentials),
            "AWS_REGION": self.credentials["AWS_DEFAULT_REGION"],
            "AWS_ENDPOINT_URL_DYNAMODB": self.dynamodb_url,
            "AWS_ENDPOINT_URL_S3": self.s3_url,
            "AWS_ENDPOINT_URL_KMS": self.s3_url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "TARGET_ALLOW_LOOPBACK": "1",
            "LOG_HISTORY": "1",
            "DEFINITIONS": str(self.app.definitions),
            "COMMANDS": ",".join(command_modules(os.environ)),
            "WEBHOOK_SECRETS": f"file:{self.home / SECRETS}",
            "TARGET_SECRETS": f"file:{self.home / SECRETS}",
        }
        if in_process:
            local |= {"SHARED_PROCESS": "1", "WORKER_FUNCTION": ""}
            local |= {"PROMETHEUS": "1"} if has_prometheus() else {}
        elif "WORKER_FUNCTION" in given:
            local["WORKER_FUNCTION"] = "WorkerFunction"
        return {**given, **local, **self.overrides}

    def _local(self, value: Any, template: Template) -> str:
        if not isinstance(value, Reference):
            return str(value)
        if value.kind == "Ref" and value.argument in RESOURCES:
            return RESOURCES[value.argument]
        if value.kind == "Ref":
            return str(own_defaults(self.app).get(value.argument, template.default(value)))
        if value.kind == "If":
            return "" if isinstance(value.argument[2], Reference) else str(value.argument[2])
        return str(value.argument).replace("${AWS::StackName}", "local")

    def secrets(self) -> dict[str, str]:
        """A secret for each webhook and target that names one: made once, kept readable by you only."""
        kept = LocalSecrets(self.home / SECRETS)
        held = kept.read()
        missing = set().union(*secret_names(self.app.definitions).values()) - set(held)
        if missing:
            held |= {name: secrets.token_hex(24) for name in missing}
            kept.write(held)
        return held
