"""`millrace bulk`: enqueue a file of rows into the local stack with Spark, as the Glue job does into a deployment."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from millrace.app.bundle import bundle_root, python_path
from millrace.app.compile import NotCompiled, write_definitions
from millrace.app.registered import CommandsBroken
from millrace.cli.app import this_app
from millrace.cli.connection import CliError, Exit
from millrace.cli.local import LocalTable, find_local

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".md": "markdown",
}


@click.command("bulk", context_settings={"ignore_unknown_options": True})
@click.argument("queue")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def bulk_command(queue: str, source: Path, options: tuple[str, ...]) -> None:
    """Enqueue every row of SOURCE (JSON lines, CSV, Parquet) into QUEUE of the local stack, once for each key.

    OPTIONS are those of the bulk job: --idempotency-key COLUMN, --key COLUMN, --report FOLDER and so on.
    """
    if find_spec("pyspark") is None:
        raise CliError("Spark is not there: pip install 'millrace[spark]'.", Exit.FAILED)
    local = find_local()
    table = local.table if local else None
    if local is None or table is None or not table.dead_letters:
        raise CliError("No local stack is known here: start one with `millrace dev`.", Exit.NOT_NOW)
    app = this_app()
    try:
        definitions = write_definitions(app, os.environ)
    except (NotCompiled, CommandsBroken) as failed:
        raise click.ClickException(str(failed)) from failed
    command = [sys.executable, "-m", "functions.bulk_enqueue.job", "--queue", queue, "--source", str(source.resolve())]
    command += ["--definitions", str(definitions), "--format", _format(source, options)]
    if "--report" not in options:
        command += ["--report", str(local.home / "bulk")]
    if "--tenant" not in options:
        command += ["--tenant", table.default_tenant]
    command += [*_places(table), *options]
    raise SystemExit(subprocess.run(command, env=_environment(table), check=False).returncode)


def _format(source: Path, options: tuple[str, ...]) -> str:
    """What was asked for, else what the name says; of a folder, what is in it."""
    if "--format" in options:
        return options[options.index("--format") + 1]
    names = [source, *sorted(source.iterdir())] if source.is_dir() else [source]
    found = next((FORMATS[name.suffix] for name in names if name.suffix in FORMATS), None)
    if found is None:
        raise click.UsageError(f"{source} does not say what it is: give --format jsonl, csv, parquet or markdown.")
    return found


def _places(table: LocalTable) -> list[str]:
    return [
        *("--queue-table", table.name, "--dead-letter-table", table.dead_letters, "--body-bucket", table.bucket),
        *("--region", table.region, "--dynamodb-endpoint", table.endpoint_url, "--s3-endpoint", table.s3_endpoint_url),
    ]


def _environment(table: LocalTable) -> dict[str, str]:
    """The local stack's credentials, the bundle on the path, and the Java that the stack runs on."""
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), *python_path()]))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "PYTHONPATH": path,
    }
    environment |= {"AWS_ACCESS_KEY_ID": table.access_key, "AWS_SECRET_ACCESS_KEY": table.secret_key}
    sys.path.insert(0, str(bundle_root()))
    from infra.local.dynamodb import find_java  # type: ignore[import-not-found,unused-ignore]

    java = Path(find_java()).resolve().parent.parent
    return {"JAVA_HOME": str(java), **environment, "PYSPARK_PYTHON": sys.executable}
