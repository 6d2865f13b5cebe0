"""One sender process: posts signed webhooks to the real ingress handler.

Run it by `python -m tests.performance.load.sender FIRST COUNT`.

A count of those accepted goes to standard output every now and then.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from functions.ingress import handler as ingress
from millrace.model.clock import system_clock
from millrace.signatures import Secret, preset
from millrace.signatures.signing import sign

EVERY = 50


def post(n: int, secret: Secret) -> int:
    body = json.dumps({"n": n, "pad": "x" * 300}).encode()
    signed = sign(preset("standard_webhooks"), secret, body, system_clock(), delivery_id=f"load-{n}")
    event: dict[str, Any] = {
        "version": "2.0",
        "rawPath": "/hook/load/LoadHook",
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **signed},
        "requestContext": {"http": {"method": "POST", "sourceIp": "198.51.100.7"}, "domainName": "hooks.example.com"},
        "body": body.decode(),
        "isBase64Encoded": False,
    }
    return int(ingress.handler(event, None)["statusCode"])


def main(first: int, count: int) -> None:
    secret = Secret("load", os.environ["LOAD_SECRET"])
    out, sys.stdout = sys.stdout, sys.stderr  # the function's own log lines are not ours
    accepted = 0
    for n in range(first, first + count):
        code = post(n, secret)
        tries = 1
        while code >= 500 and tries < 20:
            code, tries = post(n, secret), tries + 1
        accepted += code in (200, 202)
        if (n - first) % EVERY == EVERY - 1:
            out.write(f"{accepted}\n")
            out.flush()
            accepted = 0
    out.write(f"{accepted}\n")
    out.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
