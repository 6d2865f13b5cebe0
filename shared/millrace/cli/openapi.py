"""`millrace openapi`: the OpenAPI document, from the code."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("openapi")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file; else standard output.")
def openapi_command(output: Path | None) -> None:
    """Print the OpenAPI 3.1 document of `/v1` and `/admin`."""
    from millrace.http.openapi import written
    from millrace.openapi import document

    text = written(document())
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8", newline="\n")
        click.echo(f"{output}: {len(document()['paths'])} paths.")
