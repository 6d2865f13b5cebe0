"""Builds the artifact of one function: its own code, the library, and only the packages that it imports.

    python infra/build/artifact.py IngressFunction .aws-sam/build/IngressFunction

Versions are those of the lock. boto3 is shipped, not taken from the runtime: what was tested is what runs, whenever
AWS renews the runtime. botocore's 29 MB are mostly descriptions of services that nobody calls here, so only those that
are called come along. Everything is compiled for the runtime, by its own Python where it is at hand: without
`.pyc` files imports take three times as long.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: What the artifacts are built for; template.yaml's defaults. The deploy test builds for the machine it runs on.
RUNTIME = os.environ.get("MILLRACE_BUILD_PYTHON", "3.13")
PLATFORM = os.environ.get("MILLRACE_BUILD_PLATFORM", "aarch64-manylinux_2_28")

AWS_SDK = ("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
POWERTOOLS = ("aws-lambda-powertools", "typing-extensions")
CEL = ("common-expression-language",)
TRACING = ("aws-xray-sdk", "wrapt")
#: Where versions are locked. What packages ask for is left out: Chalice's command line would bring 50 MB.
LOCKS = ("requirements.txt", "infra/locks/dev.txt")
#: Services whose descriptions botocore needs here, besides its own settings.
SERVICES = {"dynamodb", "lambda", "s3", "secretsmanager", "ssm", "sts", "xray"}
#: Of the packages: what serves other services, other styles of handlers, and command lines.
UNUSED = (
    "botocore/data/*/*/examples-1.json",
    "boto3/examples",
    "boto3/data/*",
    "bin",
    "aws_lambda_powertools/event_handler",
    "chalice/cli",
)
#: Parts of the library that no function imports.
LEFT_OUT = (
    "cli",
    "client",
    "definitions/language",
    "history/checker.py",
    "history/reader.py",
    "spark",
    "stores/dynamodb/tables.py",
    "stores/memory",
)


@dataclass(frozen=True, slots=True)
class Artifact:
    """What goes into one function."""

    folders: tuple[str, ...]  #: of `functions/`
    packages: tuple[str, ...]
    files: tuple[str, ...] = ("infra/definitions.json",)


ARTIFACTS = {
    "IngressFunction": Artifact(("ingress", "commands.py"), (*POWERTOOLS, *AWS_SDK, *CEL)),
    "WorkerFunction": Artifact(("worker", "commands.py"), (*POWERTOOLS, *TRACING, *AWS_SDK, *CEL)),
    "ConsumerFunction": Artifact(("consumer",), (*AWS_SDK, *CEL)),
    "AuthoriserFunction": Artifact(("authoriser",), AWS_SDK, ()),
    "AdminFunction": Artifact(("admin",), (*POWERTOOLS, *AWS_SDK, *CEL, "chalice")),
}


def main(arguments: list[str]) -> int:
    name, target = arguments
    artifact = ARTIFACTS[name]
    build(artifact, Path(target))
    size = sum(path.stat().st_size for path in Path(target).rglob("*") if path.is_file())
    print(f"{name}: {size / 1_000_000:.1f} MB for Python {RUNTIME} on {PLATFORM}")
    return 0


def build(artifact: Artifact, target: Path) -> None:
    """Fill an empty folder."""
    target.mkdir(parents=True, exist_ok=True)
    install(artifact.packages, target)
    trim(target)
    for folder in artifact.folders:
        copy(ROOT / "functions" / folder, target / "functions" / folder)
    copy(ROOT / "shared" / "millrace", target / "millrace")
    for left_out in LEFT_OUT:
        remove(target / "millrace" / left_out)
    for name in artifact.files:
        copy(ROOT / name, target / name)
    compile_all(target)


def install(packages: tuple[str, ...], target: Path) -> None:
    """The locked versions of these packages and no others, as wheels for the runtime's platform."""
    command = [find_uv(), "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--python", sys.executable, "--python-version", RUNTIME, "--python-platform", PLATFORM]
    # One artifact is built beside the others: copies, since hard links into uv's cache would be trimmed there too.
    command += ["--link-mode", "copy", "--require-hashes", "--target", str(target), "-r", "-"]
    subprocess.run(command, input="\n".join(map(pinned, packages)), text=True, check=True)


def pinned(package: str) -> str:
    """The lock's entry of a package, hashes included."""
    for lock in LOCKS:
        found = re.search(rf"^{re.escape(package)}==.*(?:\n    .*)*", (ROOT / lock).read_text("utf-8"), re.M)
        if found:
            return found[0]
    raise SystemExit(f"error: no lock names {package}: add it to pyproject.toml and run `make lock`.")


def find_uv() -> str:
    places = [str(ROOT / folder / "bin") for folder in (".venv-uv", ".venv")]
    found = shutil.which("uv", path=os.pathsep.join([*places, os.environ.get("PATH", "")]))
    if not found:
        raise SystemExit("error: uv is not there: run `make install`.")
    return found


def trim(target: Path) -> None:
    """Take out what no function reads: other services' descriptions, examples, command lines, tests."""
    for described in (target / "botocore" / "data").glob("*/"):
        if described.is_dir() and described.name not in SERVICES:
            shutil.rmtree(described)
    for pattern in UNUSED:
        for path in target.glob(pattern):
            remove(path)
    # Of CEL only the extension module is loaded; its package brings a command line along.
    for path in (target / "cel").glob("*.py*"):
        if path.name != "__init__.py":
            remove(path)


def compile_all(target: Path) -> None:
    """Compile for the runtime. Hashes are not checked: a function's files do not change."""
    python = runtime_python()
    if python is None:
        print(f"note: Python {RUNTIME} is not there, so nothing is compiled: cold starts take longer.")
        return
    command = [python, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(target)]
    subprocess.run([*command, str(target)], check=True)


def runtime_python() -> str | None:
    """The runtime's own Python: bytecode of another version would be ignored."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [sys.executable, shutil.which(f"python{RUNTIME}"), *sorted(pyenv.glob(f"{RUNTIME}.*/bin/python"))]
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in [str(found) for found in candidates if found]:
        shown = subprocess.run([candidate, "-c", asked], capture_output=True, text=True, check=False).stdout
        if shown.strip() == RUNTIME:
            return candidate
    return None


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    else:
        shutil.copyfile(source, target)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
