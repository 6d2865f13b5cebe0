"""Commands on an app as a whole: `new`, `dev`, `test`, `build`, `deploy`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import click

from millrace.app.bundle import python_path
from millrace.app.layout import App, NoApp

_rest = {"ignore_unknown_options": True, "help_option_names": []}


def this_app() -> App:
    """The app that the current folder belongs to."""
    try:
        return App.find(Path.cwd())
    except NoApp as missing:
        raise click.ClickException(str(missing)) from missing


@click.command("new")
@click.argument("name")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), help="Its folder; the name, unless given.")
def new_command(name: str, into: Path | None) -> None:
    """Make a small app: a queue, a webhook, a handler, a test, and what it takes to run and deploy them."""
    from millrace.app.skeleton import CannotMake, make_app

    folder = into or Path(name)
    try:
        written = make_app(name, folder)
    except CannotMake as refused:
        raise click.ClickException(str(refused)) from refused
    for path in written:
        click.echo(f"  {path}")
    click.echo(f"Now: cd {folder}; pip install -r requirements.txt; millrace dev")


@click.command("dev", context_settings=_rest)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def dev_command(options: tuple[str, ...]) -> None:
    """Run the app on this machine, with everything that it needs; `millrace dev --help` shows the options."""
    _become("infra.local.run", options)


@click.command("build", context_settings=_rest)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def build_command(options: tuple[str, ...]) -> None:
    """Build the artifacts and the template of the app into .millrace, for `millrace deploy`."""
    _become("infra.build.artifact", options)


@click.command("test", context_settings=_rest)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def test_command(options: tuple[str, ...]) -> None:
    """Run the app's tests with pytest; what follows is handed to it."""
    from millrace.app.registered import app_path

    app = this_app()
    command = [sys.executable, "-m", "pytest", "--rootdir", str(app.root), *(options or [str(app.root / "tests")])]
    raise SystemExit(
        subprocess.run(command, cwd=app.root, env={**os.environ, "PYTHONPATH": app_path(app, os.environ)}).returncode
    )


@click.command("deploy", context_settings={"ignore_unknown_options": True})
@click.option("--env", "stage", default="dev", show_default=True, help="The section of samconfig.toml.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def deploy_command(stage: str, options: tuple[str, ...]) -> None:
    """Build the app and deploy it with SAM; OPTIONS are handed to `sam deploy`."""
    from millrace.app.tools import ToolMissing, ensure_environment

    app = this_app()
    environment = {**os.environ, "PYTHONPATH": _path(), "SAM_CLI_TELEMETRY": "0"}
    built = subprocess.run(
        [sys.executable, "-m", "infra.build.artifact", "--app", str(app.root)], env=environment, check=False
    )
    if built.returncode:
        raise SystemExit(built.returncode)
    try:
        sam = ensure_environment("sam") / "bin" / "sam"
    except ToolMissing as missing:
        raise click.ClickException(str(missing)) from missing
    template = app.generated / "template.json"
    command = [str(sam), "deploy", "--config-file", str(app.root / "samconfig.toml"), "--config-env", stage]
    done = subprocess.run([*command, "--template-file", str(template), *options], env=_without_path(), check=False)
    raise SystemExit(done.returncode)


def _become(module: str, options: tuple[str, ...]) -> NoReturn:
    """Go on as a module of the bundle, in place of this process: a parent in between would get Ctrl-C as well."""
    os.execve(sys.executable, [sys.executable, "-m", module, *options], {**os.environ, "PYTHONPATH": _path()})  # noqa: S606


def _path() -> str:
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), *python_path()]))


def _without_path() -> dict[str, str]:
    """For SAM, which has an environment of its own."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, "SAM_CLI_TELEMETRY": "0"}
