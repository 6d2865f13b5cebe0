"""Where the bundle is: functions, template, local stack, samples. In a checkout at its top, in a wheel beside this."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
#: The checkout that this library is part of, if it is.
_CHECKOUT = _PACKAGE.parents[1]


def is_checkout() -> bool:
    """Whether this library runs from a clone of its repository."""
    return (_CHECKOUT / "template.yaml").is_file() and (_CHECKOUT / "shared" / "millrace") == _PACKAGE


def bundle_root() -> Path:
    """The folder with `functions`, `infra`, `events` and `template.yaml`."""
    return _CHECKOUT if is_checkout() else _PACKAGE / "bundle"


def python_path() -> list[str]:
    """What has to be on the path for the bundle's modules and this library."""
    return [str(_CHECKOUT), str(_CHECKOUT / "shared")] if is_checkout() else [str(bundle_root()), str(_PACKAGE.parent)]


def tool_folder(name: str, lock: Path) -> Path:
    """Where a downloaded tool lies: `.venv-NAME` of a checkout, else in the user's cache under its lock's hash."""
    if is_checkout():
        return _CHECKOUT / f".venv-{name}"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    return cache_folder() / f"{name}-{digest}"


def cache_folder() -> Path:
    """The user's cache: XDG_CACHE_HOME, or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "millrace"
