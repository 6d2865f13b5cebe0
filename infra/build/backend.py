"""Builds the wheel: the library with the bundle inside (functions, template, local stack, samples, locks).

In a checkout the bundle is the repository's top; `millrace.app.bundle` knows both places.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools.build_meta import *  # noqa: F403 (this module is the build backend: setuptools' with one step more)
from setuptools.command.build_py import build_py

#: What an app needs of the repository, besides the library.
BUNDLE = (
    "events",
    "functions",
    "infra/__init__.py",
    "infra/build",
    "infra/definitions.schema.json",
    "infra/example",
    "infra/local",
    "infra/locks",
    "package-lock.json",
    "package.json",
    "requirements.txt",
    "template.yaml",
)
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".millrace", ".local", "node_modules")


class BuildWithBundle(build_py):  # type: ignore[misc]
    """Builds the library, then copies the bundle into it."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # what is gone from the library must not be packed again
        super().run()
        if self.editable_mode:
            return
        bundle = Path(self.build_lib) / "millrace" / "bundle"
        shutil.rmtree(bundle, ignore_errors=True)
        for name in BUNDLE:
            source, target = Path(name), bundle / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=_LEFT_OUT)
            elif source.exists():
                shutil.copyfile(source, target)
