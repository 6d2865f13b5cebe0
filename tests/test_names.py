"""One class name for one thing: a reader who meets a name knows which class it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("shared/millrace", "functions", "infra")
#: What `make build` leaves in an app: copies of the library among it.
BUILT = ".millrace"


def public_classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        written = (path for path in sorted((ROOT / folder).rglob("*.py")) if BUILT not in path.parts)
        for path in written:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(path.relative_to(ROOT).as_posix())
    return found


def test_a_class_name_means_one_class() -> None:
    assert {name: places for name, places in public_classes().items() if len(places) > 1} == {}
