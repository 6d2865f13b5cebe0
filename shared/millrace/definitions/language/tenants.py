"""Checks and compiles `tenant NAME { … }`: who may stand in a webhook's path, and with which secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millrace.definitions.language import syntax
from millrace.definitions.language.secrets import read_secrets
from millrace.definitions.language.settings import BlockReader
from millrace.definitions.language.source import Code, did_you_mean
from millrace.definitions.language.syntax import Word
from millrace.definitions.language.webhooks import CheckedWebhook
from millrace.model.queue_spec import HOOK_PREFIX, TENANT


@dataclass(frozen=True)
class CheckedTenant:
    """A declared tenant, with the webhooks that linking must still find."""

    name: Word
    settings: BlockReader
    webhooks: dict[str, Word] = field(default_factory=dict)
    secrets: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  #: of its own, by webhook


def check_tenant(block: syntax.Block, outer: BlockReader) -> CheckedTenant | None:
    """One tenant. Everything wrong inside it is reported."""
    name = _name(block, outer)
    if name is None:
        return None
    tenant = CheckedTenant(name, BlockReader(outer.parsed, outer.report, "tenant", block.members))
    for own in tenant.settings.blocks.get("webhook", ()):
        webhook = tenant.settings.label(own)
        if webhook is None:
            continue
        if webhook.text in tenant.secrets:
            message = f"`{webhook.text}` stands here twice"
            outer.error(webhook.span, Code.DUPLICATE, message, "put both secrets into one block")
        secrets = read_secrets(BlockReader(outer.parsed, outer.report, "tenant_webhook", own.members))
        if not secrets:
            hint = 'write `secret_env: "NAME"`, or leave the block out'
            outer.error(webhook.span, Code.MISSING, f"`{name.text}` has no secret for `{webhook.text}`", hint)
        tenant.webhooks.setdefault(webhook.text, webhook)
        tenant.secrets.setdefault(webhook.text, secrets)
    return tenant


def link_tenants(tenants: dict[str, CheckedTenant], webhooks: dict[str, CheckedWebhook]) -> None:
    """A secret for a webhook that is not there, or that asks for none, would open nothing."""
    for tenant in tenants.values():
        for name, word in tenant.webhooks.items():
            webhook = webhooks.get(name)
            if webhook is None:
                hint = did_you_mean(name, tuple(webhooks), f"define it: `webhook {name} {{ … }}`")
                tenant.settings.error(word.span, Code.REFERENCE, f"there is no webhook `{name}`", hint)
            elif not (webhook.compiled["provider"] or webhook.compiled["hmac"]):
                tenant.settings.error(word.span, Code.MISPLACED, f"`{name}` verifies nothing, so no secret counts")


def _name(block: syntax.Block, outer: BlockReader) -> Word | None:
    label = block.label
    text = label.text if isinstance(label, Word) else label.value if isinstance(label, syntax.Literal) else None
    if label is None or not isinstance(text, str) or TENANT.fullmatch(text) is None:
        hint = 'write `tenant acme { }` or `tenant "eu-west" { }`: 1 to 48 letters, digits, `_` and `-`'
        outer.error((label or block.kind).span, Code.SYNTAX, "this is not the name of a tenant", hint)
        return None
    if text == HOOK_PREFIX:
        message = f"a tenant `{HOOK_PREFIX}` would make `/{HOOK_PREFIX}/{HOOK_PREFIX}/…` a puzzle"
        outer.error(label.span, Code.RANGE, message, "choose another name")
        return None
    return Word(text, label.span)
