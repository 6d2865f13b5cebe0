"""`millrace doctor` says what is wrong with a set-up and what to do; `millrace dev` starts the local stack."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click

#: Ports of the local stack, and the option that changes each.
PORTS = {8080: "--port", 8000: "--dynamodb-port", 8001: "--s3-port"}
PACKAGES = ("boto3", "pynamodb", "aws_lambda_powertools", "chalice", "yaml", "rich", "httpx", "lark")
#: A folder is a checkout where these are.
SIGNS = ("template.yaml", "infra/local/run.py")
#: A path of more parts than this is shown without its middle.
LONG_PATH = 4


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    good: bool
    found: str
    remedy: str = ""  #: what to type


def checkout(start: Path) -> Path | None:
    """The checkout that a folder belongs to."""
    return next((folder for folder in (start, *start.parents) if all((folder / sign).exists() for sign in SIGNS)), None)


def examine(root: Path) -> Iterator[Check]:
    """Everything that the local stack needs, in the order in which it needs it."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", sys.version_info >= (3, 11), version, "use Python 3.11 or newer: make PYTHON=python3.11 run")
    missing = [name for name in PACKAGES if find_spec(name) is None]
    yield Check("packages", not missing, f"missing: {', '.join(missing)}" if missing else "all there", "make install")
    yield from _engines(root)
    yield _definitions(root)
    yield from _ports()
    yield from _private_files(root)


def _engines(root: Path) -> Iterator[Check]:
    sys.path.insert(0, str(root))
    from infra.local.dynamodb import find_jar, find_java  # type: ignore[import-not-found,unused-ignore]
    from infra.local.engine_process import EngineMissing  # type: ignore[import-not-found,unused-ignore]
    from infra.local.ministack import find_ministack  # type: ignore[import-not-found,unused-ignore]

    finders: tuple[tuple[str, Callable[[], str | Path], str], ...] = (
        ("Java 17", find_java, "install it (Debian: openjdk-17-jre-headless) or set JAVA_HOME"),
        ("DynamoDB Local", find_jar, "make engines"),
        ("S3 (MiniStack)", find_ministack, "make ministack"),
    )
    for name, find, remedy in finders:
        try:
            yield Check(name, good=True, found=_place(find(), root))
        except EngineMissing as error:
            yield Check(name, good=False, found=str(error), remedy=remedy)


def _place(found: str | Path, root: Path) -> str:
    """A path from the checkout, with the middle of a long one left out: the name at its end says what was found."""
    path = Path(found)
    parts = path.relative_to(root).parts if path.is_relative_to(root) else path.parts
    return str(Path(*parts)) if len(parts) <= LONG_PATH else str(Path(*parts[:2], "…", parts[-1]))


def _definitions(root: Path) -> Check:
    """The compiled definitions must be what their text compiles to; file times say nothing (a clone makes them new)."""
    if find_spec("lark") is None:
        return Check("definitions", good=False, found="cannot be compiled without lark", remedy="make install")
    from millrace.definitions.language.compiler import compile_files

    sources = sorted((root / "infra" / "queues").rglob("*.millrace"))
    compilation = compile_files((path.relative_to(root).as_posix(), path.read_bytes()) for path in sources)
    compiled = root / "infra" / "definitions.json"
    if compilation.definitions is None:
        found = f"{len(compilation.errors)} errors in infra/queues"
    elif not compiled.exists() or compiled.read_bytes() != compilation.text.encode():
        found = "infra/definitions.json is not what infra/queues compiles to"
    else:
        return Check("definitions", good=True, found="infra/definitions.json is current")
    return Check("definitions", good=False, found=found, remedy="millrace compile")


def _ports() -> Iterator[Check]:
    for port, option in PORTS.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                yield Check(f"port {port}", good=True, found="free")
            except OSError:
                remedy = f"is the stack running? else choose another with {option} N"
                yield Check(f"port {port}", good=False, found="taken", remedy=remedy)


def _private_files(root: Path) -> Iterator[Check]:
    for name in ("token", "secrets.json"):
        path = root / ".local" / name
        if path.exists():
            mode = path.stat().st_mode & 0o777
            yield Check(f".local/{name}", mode == 0o600, f"mode {mode:o}", f"chmod 600 .local/{name}")


@click.command("doctor")
def doctor_command() -> None:
    """Check everything that the local stack needs, and say what to do about what is missing."""
    findings = list(examine(_root()))
    width = max(len(finding.name) for finding in findings) + 2
    for finding in findings:
        mark = click.style("ok  ", fg="green") if finding.good else click.style("no  ", fg="red")
        found, *rest = _lines(finding.found, width)
        click.echo(f"{mark}{finding.name:{width}}{found}")
        for line in rest:
            click.echo(f"{'':{width + 4}}{line}")
        for line in [] if finding.good else _lines(finding.remedy, width):
            click.echo(f"{'':{width + 4}}{click.style(line, bold=True)}")
    wrong = sum(not finding.good for finding in findings)
    click.echo("Everything is in place." if not wrong else f"{wrong} to fix.")
    raise SystemExit(1 if wrong else 0)


def _lines(text: str, indent: int) -> list[str]:
    """The text in lines that fit beside the names, broken at spaces where it has any."""
    room = shutil.get_terminal_size().columns - indent - 4
    return textwrap.wrap(text, max(room, 20), break_on_hyphens=False) or [""]


@click.command("dev", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def dev_command(options: tuple[str, ...]) -> None:
    """Start the local stack, as `make run` does; `millrace dev --help` shows its options."""
    program = str(_root() / "infra" / "local" / "run.py")
    # In place of this process: a parent in between would get Ctrl-C as well, and could not wait for an orderly end.
    os.execv(sys.executable, [sys.executable, program, *options])  # noqa: S606


def _root() -> Path:
    root = checkout(Path.cwd())
    if root is None:
        raise click.ClickException("This is no checkout of Millrace: go into one (the folder with template.yaml).")
    return root
