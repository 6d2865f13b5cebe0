"""Terminals on the running functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.stores.dynamodb.client import TableNames
from tests.cli.terminal import Terminal
from tests.pull.stack import Stack, running


@pytest.fixture(scope="session")
def stack(engine_url: str, tables: TableNames, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The functions over HTTP."""
    with running(engine_url, tables, tmp_path_factory.mktemp("stack")) as started:
        yield started


@pytest.fixture
def terminals(stack: Stack, tenant: str, tmp_path: Path) -> tuple[Terminal, Terminal]:
    """A producer's and a worker's, each with a token of its own, made by the command line."""
    made = []
    for name, scopes in (("producer", ("enqueue", "read", "operate")), ("worker", ("consume", "read"))):
        words = [word for scope in scopes for word in ("--scope", scope)]
        bare = Terminal(stack, "", tmp_path)
        token = bare.json("tokens", "create", name, *words, "--tenant", tenant)["token"]
        made.append(Terminal(stack, token, tmp_path))
    return made[0], made[1]
