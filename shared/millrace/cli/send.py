"""`millrace send`: sign a sample event as its provider does, and post it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millrace.cli.connection import CliError, Exit, api_url, connection_of, output_option
from millrace.cli.follow import follow_by_id
from millrace.cli.local import find_local
from millrace.cli.printing import print_facts, print_json

if TYPE_CHECKING:
    from millrace.app.webhooks import AppWebhook


@click.command("send")
@click.argument("sample", required=False)
@click.argument("url", required=False)
@click.option("--secret", envvar="MILLRACE_WEBHOOK_SECRET", help="The webhook's secret; safer in the environment.")
@click.option("--secret-env", help="Name of the variable that holds the secret.")
@click.option("--samples", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A folder of samples.")
@click.option(
    "-f", "--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Send this file's body."
)
@click.option("--delivery-id", help="Delivery id, for providers that send one.")
@click.option("--dry-run", is_flag=True, help="Show the signed request and send nothing.")
@click.option(
    "--follow/--no-follow",
    "follows",
    default=None,
    help="Follow the message to its end; the exit code says done or dead. Default: in a terminal.",
)
@output_option
def send_command(
    sample: str | None,
    url: str | None,
    secret: str | None,
    secret_env: str | None,
    samples: Path | None,
    file: Path | None,
    delivery_id: str | None,
    *,
    dry_run: bool,
    follows: bool | None,
    output: str,
) -> None:
    """Sign SAMPLE as its provider does and post it to URL. Without arguments: list the samples.

    URL may be a webhook's name alone where MILLRACE_URL is set or a local stack runs in this folder. In an app, SAMPLE
    alone may be the name of one of its webhooks: then it gets a fitting sample, signed with the local stack's secret.
    """
    from millrace.app.webhooks import samples_folder
    from millrace.model.clock import system_clock
    from millrace.signatures import ConfigurationMissing, Secret
    from millrace.signatures.samples import load_sample, sample_names
    from millrace.signatures.signing import deliver

    samples = samples or samples_folder()
    names = sample_names(samples)
    if sample is None:
        click.echo("\n".join(names))
        return
    hook = _webhook(sample) if url is None else None
    if hook is None and (url is None or sample not in names):
        raise click.UsageError(f"There is no webhook and no sample {sample!r}. Samples: {', '.join(names)}.")
    url, secret_env = url or (hook.name if hook else ""), secret_env or (hook.secret if hook else None)
    value = _secret(secret_env) if secret_env else secret
    if not value:
        raise click.UsageError("Give the webhook's secret: --secret-env NAME, or MILLRACE_WEBHOOK_SECRET.")
    if "://" not in url:
        url = f"{api_url().rstrip('/')}/hook/{url}"
    event = hook.sample if hook else load_sample(samples, sample)
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
        raise click.ClickException(error.problem) from error
    headers = {name: request.headers.one(name) for name in request.headers}
    if dry_run:
        print_json({"url": request.url, "headers": headers, "body": request.body.decode("utf-8", "replace")})
        return
    answer = _post(request.url, headers, request.body, output)
    if follows or (follows is None and sys.stdout.isatty()):
        _follow(answer, asked=bool(follows))


def _webhook(name: str) -> AppWebhook | None:
    """A webhook of the app that this folder belongs to."""
    from millrace.app.compile import NotCompiled
    from millrace.app.layout import App, NoApp
    from millrace.app.webhooks import find_webhook

    try:
        return find_webhook(App.find(Path.cwd()), name)
    except NoApp:
        return None
    except NotCompiled as failed:
        raise click.ClickException(str(failed)) from failed


def _secret(name: str) -> str:
    """Of the environment, else of the folder's local stack."""
    local = find_local()
    return os.environ.get(name) or (local.secrets.get(name, "") if local else "")


def _post(url: str, headers: dict[str, str], body: bytes, output: str) -> bytes:
    import httpx

    try:
        answer = httpx.post(url, headers=headers, content=body, timeout=30)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CliError(f"No answer from {url}: {error}", Exit.NOT_NOW) from error
    facts = {"status": answer.status_code, "answer": answer.text}
    print_json(facts) if output == "json" else print_facts(facts)
    if answer.status_code >= 500:
        raise SystemExit(Exit.NOT_NOW)
    if answer.status_code >= 400:
        raise SystemExit(Exit.DENIED if answer.status_code in (401, 403) else Exit.FAILED)
    return answer.content


def _follow(answer: bytes, *, asked: bool) -> None:
    """Follow what was accepted; without a token that may read, only where it was asked for."""
    try:
        message_id = json.loads(answer)["message_id"]
    except (ValueError, KeyError, TypeError):
        return  # a challenge, or an answer of the definition's own
    try:
        connection = connection_of(None, None, None, "table")
    except CliError:
        if asked:
            raise
        click.echo("Set MILLRACE_TOKEN to follow it.", err=True)
        return
    with connection.client() as client:
        _, end = follow_by_id(client, message_id)
    raise SystemExit(end)
