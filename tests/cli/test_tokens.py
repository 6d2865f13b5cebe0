"""Tokens by the command line."""

from __future__ import annotations

from pathlib import Path

from millrace.cli.connection import Exit
from tests.cli.terminal import Terminal
from tests.pull.stack import Stack


def test_tokens_are_listed_and_revoked(stack: Stack, tmp_path: Path, tenant: str) -> None:
    terminal = Terminal(stack, "", tmp_path)
    made = terminal.json("tokens", "create", "short-lived", "-s", "read", "-t", tenant, "--days", "1")
    terminal.environment["MILLRACE_TOKEN"] = made["token"]
    terminal.run("queues")
    assert made["id"] in {token["id"] for token in terminal.json("tokens", "list")}
    terminal.run("tokens", "revoke", made["id"])
    terminal.run("queues", exit_code=Exit.DENIED)
    terminal.run("tokens", "revoke", "aaaaaaaaaaaaaaaa", exit_code=Exit.NOTHING)
