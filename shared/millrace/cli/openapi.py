"""`millrace openapi`: the pull API's document, from the code."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("openapi")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file; else standard output.")
def openapi_command(output: Path | None) -> None:
    """Print the OpenAPI 3.1 document of the pull API."""
    from millrace.http.openapi import written
    from millrace.pull.api import document

    text = written(document())
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8", newline="\n")
        click.echo(f"{output}: {len(document()['paths'])} paths.")
