"""Builds the artifacts of an app's functions: `millrace build`, `make build`.

Each has its own code, the library, and only the packages that it imports; those that run commands have the app's code
and requirements too. Versions are those of the locks. boto3 is shipped, not taken from the runtime: what was tested is
what runs, whenever AWS renews the runtime. botocore's 29 MB are mostly descriptions of services that nobody calls here,
so only those that are called come along, unless the app's requirements name boto3. Everything is compiled for the
runtime, by its own Python where it is at hand: without `.pyc` files imports take three times as long.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from platform import machine

import millrace
from infra.build.check import demand_declared_sdk, import_commands
from infra.build.requirements import (
    AWS_SDK,
    CEL,
    KEY_PAIRS,
    POWERTOOLS,
    SCHEDULES,
    TOKENS,
    CannotBuild,
    locked_requirements,
    names_of,
    pinned,
)
from millrace.app.bundle import bundle_root
from millrace.app.compile import NotCompiled, write_definitions
from millrace.app.layout import App, NoApp
from millrace.app.registered import CommandsBroken
from millrace.app.template import TemplateInvalid, artifact_names, write_template
from millrace.app.tools import ToolMissing, find_uv

ROOT = bundle_root()
LIBRARY = Path(millrace.__file__).parent
#: What the artifacts are built for; template.yaml's defaults. The deploy test builds for the machine it runs on.
RUNTIME = os.environ.get("MILLRACE_BUILD_PYTHON", "3.13")
PLATFORM = os.environ.get("MILLRACE_BUILD_PLATFORM", "aarch64-manylinux_2_28")

#: Services whose descriptions botocore needs here, besides its own settings.
SERVICES = {"dynamodb", "kms", "lambda", "s3", "secretsmanager", "ssm", "sts"}
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
    "app",
    "bundle",
    "cli",
    "client",
    "definitions/language",
    "history/checker.py",
    "history/reader.py",
    "spark",
    "stores/dynamodb/tables.py",
    "stores/memory",
    "testing",
)


@dataclass(frozen=True, slots=True)
class Artifact:
    """What goes into one function."""

    folder: str  #: of `functions/`
    packages: tuple[str, ...]
    runs_commands: bool = False
    needs_definitions: bool = True


ARTIFACTS = {
    "IngressFunction": Artifact("ingress", (*POWERTOOLS, *AWS_SDK, *CEL, *KEY_PAIRS, *TOKENS), runs_commands=True),
    "WorkerFunction": Artifact("worker", (*POWERTOOLS, *AWS_SDK, *CEL, *KEY_PAIRS, *SCHEDULES), runs_commands=True),
    "ConsumerFunction": Artifact("consumer", (*AWS_SDK, *CEL, *KEY_PAIRS)),
    "AuthoriserFunction": Artifact("authoriser", AWS_SDK, needs_definitions=False),
    "AdminFunction": Artifact("admin", (*POWERTOOLS, *AWS_SDK, *CEL, *KEY_PAIRS, "chalice")),
}


@dataclass(frozen=True, slots=True)
class Platform:
    """What an artifact is built for."""

    python: str = RUNTIME  #: "3.13"
    machine: str = PLATFORM  #: as uv names it


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="millrace build", description="Artifacts and template of an app, for SAM.")
    parser.add_argument("--app", type=Path, default=Path.cwd(), help="the app's folder (this one)")
    parser.add_argument("--locked", action="store_true", help="fail where requirements.lock is not current")
    given = parser.parse_args(arguments)
    try:
        build_app(App.find(given.app), Platform(), locked=given.locked)
    except (CannotBuild, NoApp, NotCompiled, CommandsBroken, TemplateInvalid, ToolMissing) as failed:
        print(f"error: {failed}", file=sys.stderr)
        return 1
    return 0


def build_app(app: App, platform: Platform, *, locked: bool = False) -> Path:
    """Everything that `sam deploy` takes, in the app's `.millrace`; the template's path. Imports every command."""
    write_definitions(app, os.environ)
    demand_declared_sdk(app)
    requirements = locked_requirements(app, locked=locked)
    template = write_template(app)
    folder = app.generated / "artifacts"
    shutil.rmtree(folder, ignore_errors=True)

    def one(name: str) -> str:
        build(ARTIFACTS[name], app, requirements, platform, folder / name)
        size = sum(path.stat().st_size for path in (folder / name).rglob("*") if path.is_file())
        return f"{name}: {size / 1_000_000:.1f} MB for Python {platform.python} on {platform.machine}"

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for line in pool.map(one, artifact_names()):
            print(line)
    _try_commands(app, requirements, platform, folder / "WorkerFunction")
    return template


def _try_commands(app: App, requirements: str, target: Platform, built: Path) -> None:
    """Import every command in the worker's artifact; where that is for another machine, in one made for this."""
    here = this_machine()
    if target == here:
        import_commands(app, built, dict(os.environ))
        return
    with tempfile.TemporaryDirectory() as folder:
        build(ARTIFACTS["WorkerFunction"], app, requirements, here, Path(folder))
        import_commands(app, Path(folder), dict(os.environ))


def this_machine() -> Platform:
    return Platform(f"{sys.version_info.major}.{sys.version_info.minor}", f"{machine()}-manylinux_2_28")


def build(artifact: Artifact, app: App, requirements: str, platform: Platform, target: Path) -> None:
    """Fill an empty folder. `requirements` are the app's own, locked."""
    target.mkdir(parents=True, exist_ok=True)
    own = requirements if artifact.runs_commands else ""
    asked = names_of(app.requirements) if artifact.runs_commands else set()
    install((pinned(package) for package in artifact.packages), platform, target)
    if own:
        install([own], platform, target)
    trim(target, every_service=bool(asked & {"boto3", "botocore"}))
    copy(ROOT / "functions" / artifact.folder, target / "functions" / artifact.folder)
    copy(LIBRARY, target / "millrace")
    for left_out in LEFT_OUT:
        remove(target / "millrace" / left_out)
    if artifact.needs_definitions:
        copy(app.definitions, target / "definitions.json")
    for path in app.code() if artifact.runs_commands else ():
        copy(path, target / path.name)
    compile_all(target, platform)


def install(pins: Iterable[str], platform: Platform, target: Path) -> None:
    """The locked versions of these packages and no others, as wheels for the runtime's platform."""
    command = [find_uv(), "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--python", sys.executable, "--python-version", platform.python, "--python-platform", platform.machine]
    # One artifact is built beside the others: copies, since hard links into uv's cache would be trimmed there too.
    command += ["--link-mode", "copy", "--require-hashes", "--target", str(target), "-r", "-"]
    done = subprocess.run(command, input="\n".join(pins), text=True, check=False, stderr=subprocess.PIPE)
    if done.returncode:
        raise CannotBuild(f"The packages cannot be installed for {platform.machine}:\n{done.stderr.strip()}")


def trim(target: Path, *, every_service: bool) -> None:
    """Take out what no function reads: other services' descriptions, examples, command lines, tests."""
    for described in (target / "botocore" / "data").glob("*/"):
        if described.is_dir() and described.name not in SERVICES and not every_service:
            shutil.rmtree(described)
    for pattern in UNUSED:
        for path in target.glob(pattern):
            remove(path)
    # Of CEL only the extension module is loaded; its package brings a command line along.
    for path in (target / "cel").glob("*.py*"):
        if path.name != "__init__.py":
            remove(path)


def compile_all(target: Path, platform: Platform) -> None:
    """Compile for the runtime. Hashes are not checked: a function's files do not change."""
    python = runtime_python(platform.python)
    if python is None:
        print(f"note: Python {platform.python} is not there, so nothing is compiled: cold starts take longer.")
        return
    command = [python, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(target)]
    subprocess.run([*command, str(target)], check=True)


def runtime_python(version: str) -> str | None:
    """The runtime's own Python: bytecode of another version would be ignored."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [sys.executable, shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in [str(found) for found in candidates if found]:
        shown = subprocess.run([candidate, "-c", asked], capture_output=True, text=True, check=False).stdout
        if shown.strip() == version:
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
