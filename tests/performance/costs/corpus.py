"""Webhook payloads: hundreds of real ones of GitHub (`@octokit/webhooks-examples`), and events made after others'."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from random import Random
from string import ascii_lowercase, ascii_uppercase

from infra.local.dynamodb import ROOT
from infra.local.engine_process import EngineMissing
from millrace.model.message import Draft

EXAMPLES = ROOT / "node_modules" / "@octokit" / "webhooks-examples" / "api.github.com" / "index.json"


@lru_cache(maxsize=1)
def github_drafts() -> tuple[Draft, ...]:
    """Each example with the headers that are kept of it."""
    if not EXAMPLES.exists():
        raise EngineMissing("The payload corpus is not there: run `make engines` (npm installs it from package.json).")
    events = json.loads(EXAMPLES.read_text())
    return tuple(
        Draft(
            json.dumps(example, separators=(",", ":"), ensure_ascii=False).encode(),
            headers={
                "content-type": "application/json",
                "user-agent": "GitHub-Hookshot/044aadd",
                "x-github-event": event["name"],
                "x-github-delivery": f"72d3162e-cc78-11e3-81ab-{number:012d}",
            },
            idempotency_key=f"72d3162e-cc78-11e3-81ab-{event['name']}-{number}",
            source="webhook:GitHub",
        )
        for event in events
        for number, example in enumerate(event["examples"])
    )


EVENTS = Path(__file__).with_name("events")
#: A word that holds a digit is an id, a number, a time or an address: each message has its own.
_OWN = re.compile(r"[\w+.@#-]*\d[\w+.@#-]*")
_KEPT = ("2025-09-30", "line1", "line2", "P1", "+1")


def provider_drafts(provider: str, count: int = 300) -> tuple[Draft, ...]:
    """Events of one type in the form that the provider documents, each with its own ids, numbers, times and names."""
    document, chance = (EVENTS / f"{provider}.json").read_text(), Random(provider)

    def other(found: re.Match[str]) -> str:
        return found[0] if found[0] in _KEPT else "".join(_drawn(sign, chance) for sign in found[0])

    return tuple(
        Draft(
            _OWN.sub(other, document).encode(),
            headers={"content-type": "application/json; charset=utf-8", "user-agent": f"{provider}/1.0"},
            idempotency_key=f"{provider}-{number}",
            source=f"webhook:{provider}",
        )
        for number in range(count)
    )


def _drawn(sign: str, chance: Random) -> str:
    for kind in ("0123456789", ascii_lowercase, ascii_uppercase):
        if sign in kind:
            return chance.choice(kind[1:])  # no number begins with 0
    return sign


def corpora() -> dict[str, tuple[Draft, ...]]:
    return {
        "329 GitHub payloads, of every event": github_drafts(),
        "Stripe's payment_intent.succeeded": provider_drafts("stripe"),
        "PagerDuty's incident.triggered": provider_drafts("pagerduty"),
    }
