"""The secrets that an app verifies and signs with: which there are, and where the local stack keeps them."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.app.layout import App

#: In the local stack's folder.
SECRETS = "secrets.json"


def secret_names(definitions: Path) -> dict[str, set[str]]:
    """Every `secret_env` of compiled definitions, those of tenants too, by what uses it.

    `webhooks` verify with it, `targets` sign.
    """
    compiled = json.loads(definitions.read_text("utf-8"))
    webhooks = [hook["secrets"] for hook in compiled["webhooks"].values()]
    webhooks += [secrets for tenant in compiled["tenants"].values() for secrets in tenant.values()]
    targets = [target["secrets"] for queue in compiled["queues"].values() for target in queue["targets"]]
    return {"webhooks": _names(webhooks), "targets": _names(targets)}


def _names(listed: Iterable[Iterable[Mapping[str, Any]]]) -> set[str]:
    return {secret["name"] for secrets in listed for secret in secrets if secret["source"] == "env"}


def stack_of(app: App, stage: str) -> str:
    """The stack that a section of the app's samconfig.toml deploys. Raises LookupError with what there is."""
    path = app.root / "samconfig.toml"
    written = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    names = {
        name: section["deploy"]["parameters"]["stack_name"]
        for name, section in written.items()
        if isinstance(section, dict) and "stack_name" in section.get("deploy", {}).get("parameters", {})
    }
    if stage not in names:
        raise LookupError(f"{path} names no stack for {stage!r}. It has: {', '.join(sorted(names)) or 'none'}.")
    return str(names[stage])


@dataclass(frozen=True, slots=True)
class LocalSecrets:
    """Secrets by name in a file that only its owner can read."""

    path: Path

    def read(self) -> dict[str, str]:
        held: dict[str, str] = json.loads(self.path.read_text("utf-8")) if self.path.exists() else {}
        return held

    def write(self, held: Mapping[str, str]) -> None:
        write_privately(self.path, json.dumps(held, indent=2) + "\n")


def write_privately(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from the first byte on; whoever reads sees the old text or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)
