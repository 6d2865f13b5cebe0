"""An app's own requirements, locked: `requirements.lock`, written again when `requirements.txt` changes.

The line of `millrace` itself is left out, since the artifacts have the library already. What the bundle ships too
keeps the bundle's version: two of one package cannot lie in one artifact.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

from millrace.app.bundle import bundle_root
from millrace.app.layout import App
from millrace.app.tools import find_uv

AWS_SDK = ("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
POWERTOOLS = ("aws-lambda-powertools", "typing-extensions")
CEL = ("common-expression-language",)
#: Encrypted queues, and signatures with a key pair (Ed25519, ECDSA, RSA); imported only where one is asked for.
KEY_PAIRS = ("cryptography", "cffi")
#: JSON web tokens; likewise.
TOKENS = ("pyjwt",)
#: Lambda's runtime brings no time zones.
SCHEDULES = ("cronsim", "tzdata")
#: What the functions that run commands have already.
BUNDLED = (*AWS_SDK, *POWERTOOLS, *CEL, *KEY_PAIRS, *TOKENS, *SCHEDULES)
#: Where the bundle's versions are locked. What packages ask for is left out: Chalice's command line would bring 50 MB.
LOCKS = ("requirements.txt", "infra/locks/dev.txt")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HEADER = "# Made from requirements.txt by `millrace build`; {digest}\n"


class CannotBuild(Exception):
    """The artifacts cannot be built; says what to do."""


def own_lines(requirements: Path) -> list[str]:
    """What the app asks for besides Millrace."""
    if not requirements.exists():
        return []
    lines = [line.split(" #")[0].strip() for line in requirements.read_text("utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#") and _name(line) != "millrace"]


def names_of(requirements: Path) -> set[str]:
    """The names of the packages that the app asks for."""
    return {_name(line) for line in own_lines(requirements)}


def _name(line: str) -> str:
    found = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def locked_requirements(app: App, *, locked: bool = False) -> str:
    """The app's lock, current; empty where it asks for nothing. Raises CannotBuild."""
    lines = own_lines(app.requirements)
    if not lines:
        return ""
    header = _HEADER.format(digest=hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16])
    lock = app.root / "requirements.lock"
    if not lock.exists() or not lock.read_text("utf-8").startswith(header):
        if locked:
            raise CannotBuild(f"{lock} is not what requirements.txt asks for: run `millrace build` and commit it.")
        _lock(lines, header, lock)
    return _without_the_bundles(lock.read_text("utf-8"))


def _lock(lines: list[str], header: str, lock: Path) -> None:
    constraints = "".join(f"{pinned(package).split()[0]}\n" for package in BUNDLED)
    folder = lock.parent / ".millrace"
    folder.mkdir(exist_ok=True)
    (folder / "constraints.txt").write_text(constraints, "utf-8")
    command = [find_uv(), "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-annotate"]
    command += ["--no-header", "--python-version", "3.11", "--constraint", str(folder / "constraints.txt")]
    draft = folder / "requirements.lock"
    if lock.exists():
        draft.write_text(lock.read_text("utf-8"), "utf-8")  # versions stay where they may
    done = subprocess.run(
        [*command, "-o", str(draft), "-"], input="\n".join(lines), text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise CannotBuild(f"requirements.txt cannot be locked beside the bundle's own packages:\n{done.stderr.strip()}")
    lock.write_text(header + draft.read_text("utf-8"), "utf-8")
    print(f"{lock.name} was written: commit it.")


def pinned(package: str) -> str:
    """The bundle's lock of a package, hashes included."""
    for lock in LOCKS:
        text = (bundle_root() / lock).read_text("utf-8")
        found = re.search(rf"^{re.escape(package)}==.*(?:\n    .*)*", text, re.M)
        if found:
            return found[0]
    raise CannotBuild(f"No lock names {package}: add it to pyproject.toml and run `make lock`.")


def _without_the_bundles(text: str) -> str:
    """A lock without the packages that the bundle installs itself, in the same versions."""
    entries = re.findall(r"^[A-Za-z0-9].*(?:\n    .*)*", text, re.M)
    return "\n".join(entry for entry in entries if _name(entry) not in BUNDLED)
