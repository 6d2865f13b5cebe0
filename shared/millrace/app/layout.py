"""What lies where in an app's folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millrace.app.bundle import bundle_root, is_checkout

SUFFIX = ".millrace"
#: Folders at an app's top that are no code of its commands.
_NOT_CODE = ("tests", "queues", "node_modules", "venv", "env", "dist", "build")
_NOT_MODULES = ("conftest.py", "setup.py")


class NoApp(Exception):
    """A folder that belongs to no app; says what to do."""

    def __init__(self, start: Path) -> None:
        super().__init__(
            f"{start} belongs to no app: go into one (the folder with queues/), or make one: millrace new NAME."
        )


@dataclass(frozen=True, slots=True)
class App:
    """A repository with `queues/*.millrace`, `commands/*.py`, `requirements.txt` and `template.yaml`."""

    root: Path

    @classmethod
    def find(cls, start: Path) -> App:
        """The app that a folder belongs to; in a checkout of Millrace, its example. Raises NoApp."""
        start = start.resolve()
        for folder in (start, *start.parents):
            if any((folder / "queues").glob(f"*{SUFFIX}")):
                return cls(folder)
        if is_checkout() and start.is_relative_to(bundle_root()):
            return cls(bundle_root() / "infra" / "example")
        raise NoApp(start)

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def queues(self) -> Path:
        return self.root / "queues"

    @property
    def template(self) -> Path:
        return self.root / "template.yaml"

    @property
    def requirements(self) -> Path:
        return self.root / "requirements.txt"

    @property
    def generated(self) -> Path:
        """What is made from the rest: nothing of it is committed."""
        return self.root / ".millrace"

    @property
    def definitions(self) -> Path:
        return self.generated / "definitions.json"

    @property
    def home(self) -> Path:
        """The local stack's data."""
        return self.root / ".local"

    def code(self) -> Iterator[Path]:
        """The app's own Python code, which goes into the artifacts: `commands/`, packages and modules at its top."""
        for path in sorted(self.root.iterdir()):
            if path.name.startswith(".") or path.name in _NOT_CODE:
                continue
            is_package = path.is_dir() and (path.name == "commands" or (path / "__init__.py").is_file())
            if is_package or (path.suffix == ".py" and path.name not in _NOT_MODULES):
                yield path
