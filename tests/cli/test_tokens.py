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


def test_what_aws_lacks_is_said_in_a_sentence(stack: Stack, tmp_path: Path) -> None:
    terminal = Terminal.bare(tmp_path)
    list_them = ("tokens", "list", "--table", stack.table)

    def says(*words: str, exit_code: Exit) -> str:
        said = terminal.run(*words, exit_code=exit_code).stderr.decode()
        assert "Traceback" not in said
        return said

    assert "--table" in says("tokens", "list", exit_code=Exit.USAGE)
    assert "AWS_REGION" in says(*list_them, exit_code=Exit.DENIED)
    terminal.environment |= {"AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true"}
    assert "credentials" in says(*list_them, exit_code=Exit.DENIED)
    terminal.environment |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    terminal.environment["AWS_ENDPOINT_URL_DYNAMODB"] = stack.environment["AWS_ENDPOINT_URL_DYNAMODB"]
    assert "no-such-table" in says("tokens", "list", "--table", "no-such-table", exit_code=Exit.NOT_NOW)
    terminal.environment["AWS_PROFILE"] = "nobody"
    assert "nobody" in says(*list_them, exit_code=Exit.DENIED)
