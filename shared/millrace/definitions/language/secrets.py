"""Reads secrets: by the name of their place, never written in a definition."""

from __future__ import annotations

import re
from typing import Any

from millrace.definitions.language import syntax
from millrace.definitions.language.settings import BlockReader
from millrace.definitions.language.source import Code, Span, did_you_mean
from millrace.definitions.model import SecretKind

_SOURCES = tuple(source.value for source in SecretKind)
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def read_secrets(settings: BlockReader) -> list[dict[str, Any]]:
    """Every secret of a block, in their order."""
    secrets = []
    for value in settings.values("secret_env"):
        name = settings.text_of(value, "secret_env")
        if name is not None:
            secrets.append(read_secret(f"env:{name}", value.span, settings))
    for value in settings.values("secret"):
        text = settings.text_of(value, "secret")
        if text is not None:
            secrets.append(read_secret(text, value.span, settings))
    secrets += [_secret_block(block, settings) for block in settings.blocks.get("secret", ())]
    return [secret for secret in secrets if secret is not None]


def _secret_block(block: syntax.Block, settings: BlockReader) -> dict[str, Any] | None:
    label = block.label
    if not isinstance(label, syntax.Literal) or not isinstance(label.value, str):
        hint = 'write `secret "env:NAME" { … }`'
        settings.error(block.kind.span, Code.TYPE, "a secret is named by a string", hint)
        return None
    inner = BlockReader(settings.parsed, settings.report, "secret", block.members)
    valid_from, valid_until = inner.time("valid_from"), inner.time("valid_until")
    if valid_from is not None and valid_until is not None and valid_until <= valid_from:
        settings.error(block.span, Code.RANGE, "the secret is never valid: it ends before it starts")
    secret = read_secret(label.value, label.span, settings)
    return None if secret is None else {**secret, "valid_from": valid_from, "valid_until": valid_until}


def read_secret(text: str, span: Span, settings: BlockReader) -> dict[str, Any] | None:
    """A secret's place. The secret itself never stands in a definition."""
    source, colon, name = text.partition(":")
    if not colon or source not in _SOURCES or not name or not name.isprintable() or " " in name:
        hint = did_you_mean(source, _SOURCES, 'write "env:NAME", "secretsmanager:name" or "ssm:/name"')
        settings.error(span, Code.TYPE, "a secret is named by its place, never written here", hint)
        return None
    if source == SecretKind.ENV and _ENVIRONMENT_NAME.fullmatch(name) is None:
        settings.error(span, Code.TYPE, "this is not the name of an environment variable", 'write "env:NAME"')
        return None
    return {"source": source, "name": name, "valid_from": None, "valid_until": None}
