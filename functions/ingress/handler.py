"""`POST /hook/{name}` and `POST /hook/{tenant}/{name}`: verify, dedupe, admit, 202.

`GET` answers the questions that some providers ask before they send anything.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from functions.ingress.report import report
from millrace.aws.runtime import aws_runtime, deployed_definitions
from millrace.aws.secrets import powertools_fetch
from millrace.aws.settings import Settings
from millrace.http.edge import passed, refused
from millrace.model.clock import system_clock
from millrace.signatures import PublishedKeys, SecretSource
from millrace.signatures.fetching import https_fetch
from millrace.stores.dynamodb.minimal_client import minimal_client
from millrace.webhooks import Ingress, serve
from millrace.webhooks.problems import note_problem
from millrace.webhooks.sync_commands import commands_of

#: Both writes of an enqueue fit into the ten seconds that GitHub waits, and GitHub never sends again by itself.
DEADLINE_S = 4.0


@cache
def ingress() -> Ingress:
    """What every call of this process shares; built with the first one."""
    settings = Settings.from_environment(os.environ)
    return Ingress(
        deployed_definitions(settings),
        aws_runtime(settings, minimal_client(os.environ), deadline_s=DEADLINE_S),
        SecretSource(system_clock, open_store=powertools_fetch),
        default_tenant=settings.default_tenant,
        run_command=commands_of(os.environ.get("COMMANDS", "")),
        keys=PublishedKeys(https_fetch(), system_clock),
    )


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Answer one call."""
    seen = passed(event, os.environ.get("EDGE_SECRET", ""))
    if seen is None:
        return refused()
    served = serve(ingress(), seen)
    report(served)
    note_problem(ingress(), served)
    return served.response.as_event()
