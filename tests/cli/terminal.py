"""A terminal: the real binary with an environment of its own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from infra.local.dynamodb import CREDENTIALS
from millrace.cli.connection import Exit
from tests.pull.stack import Stack

MILLRACE = Path(sys.executable).parent / "millrace"


PATIENCE = 120


class Terminal:
    """A shell of its own: its environment, and the exports that a dequeue gave it."""

    def __init__(self, stack: Stack, token: str, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            **CREDENTIALS,
            **stack.environment,
            "MILLRACE_URL": stack.url,
            "MILLRACE_TOKEN": token,
        }

    @classmethod
    def bare(cls, folder: Path) -> Terminal:
        """With nothing set."""
        made = cls.__new__(cls)
        made.folder, made.environment = folder, {"PATH": os.environ["PATH"], "HOME": str(folder)}
        return made

    def run(
        self, *words: str, stdin: bytes | None = None, exit_code: Exit = Exit.OK
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [MILLRACE, *words],
            input=stdin,
            capture_output=True,
            env=self.environment,
            cwd=self.folder,
            timeout=PATIENCE,
        )
        assert done.returncode == exit_code, (words, done.stdout, done.stderr)
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--output", "json").stdout)

    def evaluate(self, exports: bytes) -> None:
        """As `eval "$(…)"` does."""
        for line in exports.decode().splitlines():
            word, assignment = shlex.split(line)
            assert word == "export"
            name, _, value = assignment.partition("=")
            self.environment[name] = value
