"""The local stack of a folder: where `make run` and `millrace dev` left its address, its token and its table.

`.local/url`          the API
`.local/token`        a token for it, readable by its owner only
`.local/secrets.json` the webhooks' secrets, readable by its owner only
`.local/table.json`   the tables and the bucket: names, endpoints, and the credentials that DynamoDB Local takes
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from millrace.model.queue_spec import DEFAULT_TENANT

FOLDER, URL, TOKEN, TABLE, SECRETS = ".local", "url", "token", "table.json", "secrets.json"


@dataclass(frozen=True, slots=True)
class LocalTable:
    """The queue table of a local stack."""

    name: str
    endpoint_url: str
    region: str
    access_key: str
    secret_key: str
    dead_letters: str = ""  #: the dead-letter table; empty where an older stack wrote the file
    bucket: str = ""  #: of large bodies
    s3_endpoint_url: str = ""
    default_tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class RunningStack:
    """What a local stack wrote about itself; it may have been stopped since."""

    home: Path

    @property
    def url(self) -> str:
        return (self.home / URL).read_text("utf-8").strip()

    @property
    def token(self) -> str | None:
        path = self.home / TOKEN
        return path.read_text("utf-8").strip() if path.exists() else None

    @property
    def secrets(self) -> dict[str, str]:
        """The webhooks' secrets by their names."""
        path = self.home / SECRETS
        return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}

    @property
    def table(self) -> LocalTable | None:
        path = self.home / TABLE
        return LocalTable(**json.loads(path.read_text("utf-8"))) if path.exists() else None


def find_local(start: Path | None = None) -> RunningStack | None:
    """The stack of this folder, or of the nearest parent that has one."""
    here = start or Path.cwd()
    homes = (folder / FOLDER for folder in (here, *here.parents))
    return next((RunningStack(home) for home in homes if (home / URL).is_file()), None)
