"""A terminal: the command line with an environment of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from infra.local.dynamodb import CREDENTIALS
from millrace.cli.connection import Exit
from millrace.cli.main import main
from tests.pull.stack import Stack

MILLRACE = Path(sys.executable).parent / "millrace"


PATIENCE = 120


class Terminal:
    """A shell of its own: its environment, and the exports that a dequeue gave it."""

    def __init__(self, stack: Stack, token: str, folder: Path) -> None:
        self.folder = folder
        self.in_process = True
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
        """With nothing set, in a process of its own."""
        made = cls.__new__(cls)
        made.folder, made.environment = folder, {"PATH": os.environ["PATH"], "HOME": str(folder)}
        made.in_process = False
        return made

    def run(
        self, *words: str, stdin: bytes | None = None, exit_code: Exit = Exit.OK
    ) -> subprocess.CompletedProcess[bytes]:
        done = self._invoke(words, stdin) if self.in_process else self._start(words, stdin)
        assert done.returncode == exit_code, (words, done.stdout, done.stderr)
        return done

    def _invoke(self, words: Sequence[str], stdin: bytes | None) -> subprocess.CompletedProcess[bytes]:
        """One command, in this process: starting Python takes longer than most commands do."""
        others = dict.fromkeys(os.environ.keys() - self.environment.keys())
        with contextlib.chdir(self.folder):
            done = CliRunner().invoke(main, words, input=stdin, env={**others, **self.environment})
        return subprocess.CompletedProcess(words, done.exit_code, done.stdout_bytes, done.stderr_bytes)

    def _start(self, words: Sequence[str], stdin: bytes | None) -> subprocess.CompletedProcess[bytes]:
        """The real binary: also where the SDK must not remember credentials of before."""
        command = [str(MILLRACE), *words]
        return subprocess.run(
            command, input=stdin, capture_output=True, env=self.environment, cwd=self.folder, timeout=PATIENCE
        )

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--output", "json").stdout)

    def evaluate(self, exports: bytes) -> None:
        """As `eval "$(…)"` does."""
        for line in exports.decode().splitlines():
            word, assignment = shlex.split(line)
            assert word == "export"
            name, _, value = assignment.partition("=")
            self.environment[name] = value
