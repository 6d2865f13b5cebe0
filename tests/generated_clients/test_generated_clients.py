"""Clients that other generators make from infra/openapi.json compile strictly and work against the functions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.stores.dynamodb.client import TableNames
from tests.pull.stack import Stack, running

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCUMENT = ROOT / "infra" / "openapi.json"
PYTHON = ROOT / ".venv-clients" / "bin"
CONFIG = HERE / "generator.yaml"
NPM = ["npm", "ci", "--ignore-scripts", "--no-fund", "--no-audit", "--prefer-offline", "--loglevel=error"]

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def stack(engine_url: str, tables: TableNames, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(engine_url, tables, tmp_path_factory.mktemp("stack")) as started:
        yield started


def ran(command: list[str], folder: Path, **environment: str) -> str:
    """What it printed; all of it in the failure where it failed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def assert_round_trip(printed: str, language: str) -> None:
    finished = json.loads(printed.splitlines()[-1])
    assert finished["enqueued"] == finished["acked"]
    assert finished["body"] == {"from": language}
    assert finished["refused"] == "invalid_request"


def test_a_typescript_client_compiles_strictly_and_finishes_a_message(
    stack: Stack, tenant: str, tmp_path: Path
) -> None:
    if not (shutil.which("npm") and shutil.which("node")):
        pytest.fail("npm or node is not on the PATH: install Node.js 20 or newer (Debian: nodejs npm).")
    for name in ("package.json", "package-lock.json", "tsconfig.json", "round_trip.ts"):
        shutil.copy(HERE / name, tmp_path)
    ran(NPM, tmp_path)
    binaries = tmp_path / "node_modules" / ".bin"
    ran([str(binaries / "openapi-typescript"), str(DOCUMENT), "--output", "api.d.ts"], tmp_path)
    ran([str(binaries / "tsc")], tmp_path)
    token = stack.token(tenant)
    printed = ran(["node", "round_trip.js"], tmp_path, MILLRACE_URL=stack.url, MILLRACE_TOKEN=token)
    assert_round_trip(printed, "typescript")


def test_a_python_client_type_checks_and_finishes_a_message(stack: Stack, tenant: str, tmp_path: Path) -> None:
    if not (PYTHON / "openapi-python-client").exists():
        pytest.fail("There is no .venv-clients: run `make clients-test`, which makes it.")
    shutil.copy(HERE / "round_trip.py", tmp_path)
    path = f"{PYTHON}{os.pathsep}{os.environ['PATH']}"
    generator = [
        str(PYTHON / "openapi-python-client"),
        "generate",
        "--fail-on-warning",
        "--meta=none",
        f"--config={CONFIG}",
    ]
    package = tmp_path / "millrace_client"
    ran([*generator, "--path", str(DOCUMENT), "--output-path", str(package)], tmp_path, PATH=path)
    # What the generator's own templates lack is not ours to judge: only the use of what it wrote is.
    ran([str(PYTHON / "mypy"), "--strict", "--no-incremental", "--follow-imports=silent", "round_trip.py"], tmp_path)
    token = stack.token(tenant)
    python = [str(PYTHON / "python"), "-W", "error", "round_trip.py"]
    printed = ran(python, tmp_path, MILLRACE_URL=stack.url, MILLRACE_TOKEN=token)
    assert_round_trip(printed, "python")
