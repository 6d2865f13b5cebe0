"""`millrace doctor` says what is wrong with a set-up and what to do."""

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

from millrace.app.bundle import bundle_root, is_checkout
from millrace.app.layout import App
from millrace.cli.app import this_app

#: Ports of the local stack, and the option that changes each.
PORTS = {8080: "--port", 8000: "--dynamodb-port", 8001: "--s3-port"}
PACKAGES = ("boto3", "pynamodb", "aws_lambda_powertools", "chalice", "yaml", "rich", "httpx", "lark")
#: A path of more parts than this is shown without its middle.
LONG_PATH = 4


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    good: bool
    found: str
    remedy: str = ""  #: what to type


def examine(app: App, environment: dict[str, str]) -> Iterator[Check]:
    """Everything that the local stack needs, in the order in which it needs it."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", sys.version_info >= (3, 11), version, "use Python 3.11 or newer")
    missing = [name for name in PACKAGES if find_spec(name) is None]
    install = "make install" if is_checkout() else "pip install -r requirements.txt"
    yield Check("packages", not missing, f"missing: {', '.join(missing)}" if missing else "all there", install)
    yield from _engines(app.root)
    yield _definitions(app, environment)
    yield from _ports()
    yield from _private_files(app)


def _engines(root: Path) -> Iterator[Check]:
    sys.path.insert(0, str(bundle_root()))
    from infra.local.dynamodb import find_jar, find_java  # type: ignore[import-not-found,unused-ignore]
    from infra.local.engine_process import EngineMissing  # type: ignore[import-not-found,unused-ignore]
    from infra.local.ministack import find_ministack  # type: ignore[import-not-found,unused-ignore]

    finders: tuple[tuple[str, Callable[[], str | Path], str], ...] = (
        ("Java 17", find_java, "install it (Debian: openjdk-17-jre-headless) or set JAVA_HOME"),
        ("DynamoDB Local", find_jar, "make engines" if is_checkout() else "millrace dev downloads it"),
        ("S3 (MiniStack)", find_ministack, "make ministack" if is_checkout() else "millrace dev downloads it"),
    )
    for name, find, remedy in finders:
        try:
            yield Check(name, good=True, found=_place(find(), root))
        except EngineMissing as error:
            yield Check(name, good=False, found=str(error), remedy=remedy)


def _place(found: str | Path, root: Path) -> str:
    """A path from the app, with the middle of a long one left out: the name at its end says what was found."""
    path = Path(found)
    parts = path.relative_to(root).parts if path.is_relative_to(root) else path.parts
    return str(Path(*parts)) if len(parts) <= LONG_PATH else str(Path(*parts[:2], "…", parts[-1]))


def _definitions(app: App, environment: dict[str, str]) -> Check:
    """The definitions must compile, and every command that they name must be registered."""
    if find_spec("lark") is None:
        return Check("definitions", good=False, found="cannot be compiled without lark", remedy="pip install millrace")
    from millrace.app.compile import compile_app
    from millrace.app.registered import CommandsBroken

    try:
        compilation = compile_app(app, environment)
    except CommandsBroken as broken:
        return Check("definitions", good=False, found=str(broken), remedy="mend it, then millrace compile")
    if compilation.definitions is None:
        found = f"{len(compilation.errors)} errors in queues/"
        return Check("definitions", good=False, found=found, remedy="millrace compile")
    queues, webhooks = (len(compilation.definitions[kind]) for kind in ("queues", "webhooks"))
    return Check("definitions", good=True, found=f"{queues} queues, {webhooks} webhooks")


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


def _private_files(app: App) -> Iterator[Check]:
    for name in ("token", "secrets.json"):
        path = app.home / name
        if path.exists():
            mode = path.stat().st_mode & 0o777
            yield Check(f".local/{name}", mode == 0o600, f"mode {mode:o}", f"chmod 600 .local/{name}")


@click.command("doctor")
def doctor_command() -> None:
    """Check everything that the local stack needs, and say what to do about what is missing."""
    findings = list(examine(this_app(), dict(os.environ)))
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
