"""Real webhook payloads, as GitHub sends them: hundreds of examples from `@octokit/webhooks-examples`."""

from __future__ import annotations

import json
from functools import lru_cache

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
