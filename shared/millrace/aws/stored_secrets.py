"""The one secret of a deployment, a JSON object: read and replaced as a whole, by whoever operates it.

Two operators who set different keys at the same time must not undo each other. Secrets Manager has no conditional
write, but moves a label only from the version that it is told: the new version becomes current if the one that was
read still is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

CURRENT = "AWSCURRENT"
#: Marks a version that is not current yet.
PENDING = "MILLRACEPENDING"


class SecretsUnreachable(Exception):
    """The secret cannot be read or written; says why and what to do."""


@dataclass(slots=True)
class StoredSecrets:
    """Secrets by name, in Secrets Manager under `name`."""

    name: str
    client: Any = None
    _read: str = field(default="", init=False)  #: the version that was read

    def read(self) -> dict[str, str]:
        """All of them; none while the secret is empty. Raises SecretsUnreachable."""
        try:
            found = self._connected().get_secret_value(SecretId=self.name, VersionStage=CURRENT)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException" and self._exists():
                return {}
            raise SecretsUnreachable(self._refused(error)) from error
        except BotoCoreError as error:
            raise SecretsUnreachable(self._refused(error)) from error
        self._read = found["VersionId"]
        held: dict[str, str] = json.loads(found["SecretString"] or "{}")
        return held

    def write(self, held: dict[str, str]) -> None:
        """Replace what was read. Raises SecretsUnreachable where somebody else was faster: then nothing is changed."""
        client, text = self._connected(), json.dumps(held)
        try:
            if not self._read:
                client.put_secret_value(SecretId=self.name, SecretString=text)
                return
            put = client.put_secret_value(SecretId=self.name, SecretString=text, VersionStages=[PENDING])
            client.update_secret_version_stage(
                SecretId=self.name,
                VersionStage=CURRENT,
                MoveToVersionId=put["VersionId"],
                RemoveFromVersionId=self._read,
            )
        except (ClientError, BotoCoreError) as error:
            raise SecretsUnreachable(self._refused(error)) from error

    def _connected(self) -> Any:
        if self.client is None:
            try:
                self.client = boto3.client("secretsmanager")
            except BotoCoreError as error:
                raise SecretsUnreachable(f"AWS cannot be reached: {error} Set AWS_PROFILE or AWS_REGION.") from error
        return self.client

    def _exists(self) -> bool:
        try:
            self._connected().describe_secret(SecretId=self.name)
        except (ClientError, BotoCoreError):
            return False
        return True

    def _refused(self, error: Exception) -> str:
        return f"The secret {self.name} could not be read or written: {error} Is the stack deployed, in this region?"
