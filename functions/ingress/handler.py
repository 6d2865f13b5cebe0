"""`POST /hook/{name}` and `POST /hook/{tenant}/{name}`: verify, dedupe, admit, 202.

`GET` answers the questions that some providers ask before they send anything.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from functions.ingress.report import report
from millrace.clock import system_clock
from millrace.definitions import load
from millrace.ingress import Ingress, serve
from millrace.ingress.at_once import commands_of
from millrace.settings import Settings
from millrace.signatures import SecretSource
from millrace.stores.dynamodb.intake_runtime import intake_runtime


@cache
def ingress() -> Ingress:
    """What every call of this process shares; built with the first one."""
    settings = Settings.from_environment(os.environ)
    return Ingress(
        load(settings.definitions),
        intake_runtime(settings, os.environ),
        SecretSource(system_clock),
        default_tenant=settings.default_tenant,
        run_command=commands_of(os.environ.get("COMMANDS", "")),
    )


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Answer one call."""
    served = serve(ingress(), event)
    report(served)
    return served.response.as_event()
