"""`millrace send`: sign a sample event as its provider does, and post it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from millrace.cli.connection import CliError, Exit, output_option
from millrace.cli.printing import print_facts, print_json

SAMPLES = Path("events/providers")


@click.command("send")
@click.argument("sample", required=False)
@click.argument("url", required=False)
@click.option("--secret", envvar="MILLRACE_WEBHOOK_SECRET", help="The webhook's secret; safer in the environment.")
@click.option("--secret-env", help="Name of the variable that holds the secret.")
@click.option("--samples", type=click.Path(exists=True, file_okay=False, path_type=Path), default=SAMPLES)
@click.option(
    "-f", "--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Send this file's body."
)
@click.option("--delivery-id", help="Delivery id, for providers that send one.")
@click.option("--dry-run", is_flag=True, help="Show the signed request and send nothing.")
@output_option
def send_command(
    sample: str | None,
    url: str | None,
    secret: str | None,
    secret_env: str | None,
    samples: Path,
    file: Path | None,
    delivery_id: str | None,
    *,
    dry_run: bool,
    output: str,
) -> None:
    """Sign SAMPLE as its provider does and post it to URL. Without arguments: list the samples."""
    import os

    from millrace.model.clock import system_clock
    from millrace.signatures import ConfigurationMissing, Secret
    from millrace.signatures.samples import load_sample, sample_names
    from millrace.signatures.signing import deliver

    names = sample_names(samples)
    if sample is None or url is None:
        click.echo("\n".join(names))
        return
    if sample not in names:
        raise click.UsageError(f"There is no sample {sample!r}. Samples: {', '.join(names)}.")
    value = os.environ.get(secret_env, "") if secret_env else secret
    if not value:
        raise click.UsageError("Give the webhook's secret: --secret-env NAME, or MILLRACE_WEBHOOK_SECRET.")
    event = load_sample(samples, sample)
    if file is not None:
        event = replace(event, body=file.read_bytes())
    try:
        request = deliver(
            event.scheme,
            Secret("cli", value),
            url,
            event.body,
            system_clock(),
            headers=event.headers,
            delivery_id=delivery_id or event.delivery_id,
        )
    except ConfigurationMissing as error:
        raise click.ClickException(str(error)) from error
    headers = {name: request.headers.one(name) for name in request.headers}
    if dry_run:
        print_json({"url": request.url, "headers": headers, "body": request.body.decode("utf-8", "replace")})
        return
    _post(request.url, headers, request.body, output)


def _post(url: str, headers: dict[str, str], body: bytes, output: str) -> None:
    import httpx

    try:
        answer = httpx.post(url, headers=headers, content=body, timeout=30)
    except httpx.HTTPError as error:
        raise CliError(f"No answer from {url}: {error}", Exit.NOT_NOW) from error
    facts = {"status": answer.status_code, "answer": answer.text}
    print_json(facts) if output == "json" else print_facts(facts)
    if answer.status_code >= 500:
        raise SystemExit(Exit.NOT_NOW)
    if answer.status_code >= 400:
        raise SystemExit(Exit.DENIED if answer.status_code in (401, 403) else Exit.FAILED)
