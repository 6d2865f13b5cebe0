"""The page on tenants is true: its commands are typed as they stand, with what they show."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from millrace.cli.connection import Exit
from tests.cli.terminal import MILLRACE, PATIENCE, Terminal
from tests.cli.test_local import tell
from tests.pull.stack import Stack

PAGE = Path(__file__).parents[2] / "SECURITY.md"


def test_a_token_of_one_tenant_as_the_page_shows_it(stack: Stack, tmp_path: Path, engine_url: str) -> None:
    section = PAGE.read_text("utf-8").partition("\n## Tenants\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```console\n(.*?)```", section, re.S)
    *lines, shown = block.strip().splitlines()
    commands = [line.removeprefix("$ ") for line in lines]
    assert len(commands) == 5
    environment = Terminal.bare(tell(stack, tmp_path, "", engine_url)).environment
    environment["PATH"] = f"{MILLRACE.parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", "\n".join(commands)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == Exit.DENIED, done.stderr
    assert done.stderr.splitlines()[-1] == shown
    assert done.stdout.endswith('{"n":1}')
