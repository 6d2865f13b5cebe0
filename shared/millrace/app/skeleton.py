"""`millrace new NAME`: a small app to start from, made of the shipped example."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from millrace.app.bundle import bundle_root

_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")
#: What a new app begins with; the example has more.
FILES = (
    ".github/workflows/ci.yml",
    ".gitignore",
    "README.md",
    "commands/incidents.py",
    "queues/incidents.millrace",
    "requirements.txt",
    "samconfig.toml",
    "template.yaml",
    "tests/test_incidents.py",
)


class CannotMake(Exception):
    """A new app cannot be made there; says why."""


def make_app(name: str, folder: Path) -> list[Path]:
    """Write a new app into `folder`, which must be empty or missing; the files written. Raises CannotMake."""
    if not _NAME.fullmatch(name):
        raise CannotMake(f"{name!r} is no name for a stack: lower-case letters, digits and hyphens, a letter first.")
    if folder.exists() and any(folder.iterdir()):
        raise CannotMake(f"{folder} is not empty: choose another name, or empty it.")
    example = bundle_root() / "infra" / "example"
    written = []
    for file in FILES:
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_renamed(file, (example / file).read_text("utf-8"), name), "utf-8")
        written.append(target)
    return written


def _renamed(file: str, text: str, name: str) -> str:
    """The example's text under the new app's name, with the version that makes it."""
    match file:
        case "samconfig.toml":
            return re.sub(r'"millrace(-\w+)?"', lambda found: f'"{name}{found[1] or ""}"', text)
        case "README.md":
            return text.replace("# millrace\n", f"# {name}\n", 1)
        case "requirements.txt":
            return re.sub(r"^millrace==.*$", f"millrace=={version('millrace')}", text, flags=re.M)
        case _:
            return text
