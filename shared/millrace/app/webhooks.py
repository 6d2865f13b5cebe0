"""An app's own webhooks, for whoever sends them something: how each verifies, with which secret, and a sample of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from millrace.app.bundle import bundle_root
from millrace.app.compile import NotCompiled, definition_files
from millrace.app.layout import App
from millrace.definitions.language.compiler import compile_files
from millrace.definitions.loading import load
from millrace.signatures.presets import scheme_from
from millrace.signatures.samples import Sample, load_sample, sample_names


@dataclass(frozen=True, slots=True)
class AppWebhook:
    """A webhook and what to send it."""

    name: str
    secret: str  #: the name of its secret; empty where it verifies nothing, or with a stored one
    sample: Sample


def samples_folder() -> Path:
    """The samples that come with the bundle, one for each provider."""
    return bundle_root() / "events" / "providers"


def find_webhook(app: App, name: str) -> AppWebhook | None:
    """The webhook of that name, or the only one that verifies as the sample of that name is signed; else None.

    Raises NotCompiled.
    """
    compilation = compile_files(definition_files(app))
    if compilation.definitions is None:
        raise NotCompiled("\n".join(map(str, compilation.errors)))
    definitions = load(compilation.text.encode())
    samples = [load_sample(samples_folder(), sample) for sample in sample_names(samples_folder())]
    found = []
    for webhook in map(definitions.webhook, definitions.webhooks):
        settings = webhook.signature_settings
        if settings is None:
            continue
        scheme = scheme_from(settings)
        secret = next((secret.name for secret in webhook.secrets if secret.source == "env"), "")
        fitting = [sample for sample in samples if sample.scheme.name == scheme.name]
        sample = next((sample for sample in fitting if sample.name == name), fitting[0])
        if name in (webhook.name, sample.name):
            found.append(AppWebhook(webhook.name, secret, replace(sample, scheme=scheme)))
    named = [webhook for webhook in found if webhook.name == name]
    return named[0] if named else found[0] if len(found) == 1 else None
