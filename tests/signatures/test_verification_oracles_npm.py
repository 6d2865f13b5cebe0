"""Schemes of the table against the providers' own libraries on npm, all of them asked by one process.

What we sign each library takes, and nothing that was changed afterwards.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.local.engines import npm_install, with_node
from millrace.signatures import PRESETS, Scheme, WebhookRequest
from millrace.signatures.signing import deliver, sign
from tests.signatures.cases import NOW, URL, refusal, secret_of, signer_of, texts, with_header
from tests.signatures.issuers import SNS_CERTIFICATE, certificate, google_pem, published_delivery

FOLDER = Path(__file__).parent / "oracles"
#: At a whole second: libraries differ in how they round.
MOMENT = NOW // 1000 * 1000
#: By the names of the rows; which package it is, the page says.
ASKED = [
    *("aws_sns", "box", "clerk", "coinbase_commerce", "github", "google_pubsub", "hubspot", "line", "linear"),
    *("messagebird", "modern_treasury", "mux", "notion", "onfido", "openai", "paddle", "pusher", "replicate"),
    *("resend", "sanity", "shopify", "telnyx", "viber", "vonage", "webflow", "workos", "zoom"),
]
#: Their library does not look at the body: our own check of the token's hash does.
ONLY_THE_TOKEN = ("google_pubsub", "vonage")


def test_schemes_agree_with_the_libraries_on_npm() -> None:
    cases = [case for name in ASKED for case in _cases(PRESETS[name])]
    answers = _asked(cases)
    wrong = [
        (case["provider"], case["change"], answer)
        for case, answer in zip(cases, answers, strict=True)
        if answer != case["expected"]
    ]
    assert wrong == []


def _cases(scheme: Scheme) -> list[dict[str, Any]]:
    """Deliveries as we sign them, and each with its body and its signature changed."""
    found = []
    for number, text in enumerate(texts(24, seed=31)):
        document = {"id": f"e-{number}", "event": "x", "type": "x", "payload": {}, "data": {"text": text}}
        request = _sent(scheme, json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(), number)
        assert refusal(scheme, request, now=MOMENT) is None
        found.append(_case(scheme, request, "none", expected=True))
        if scheme.escapes:
            found.append(_escaped(scheme, request))
        other = _sent(scheme, b'{"id":"other","event":"x","type":"x","data":{}}', number)
        if scheme.name not in ONLY_THE_TOKEN:
            body = other.body if scheme.name != "aws_sns" else request.body.replace(b'\\"x\\"', b'\\"y\\"')
            found.append(_case(scheme, request, "body", body=body.decode()))
        if scheme.name != "aws_sns":
            changed = _changed(request.headers.one(scheme.names[0].signature))
            found.append(_case(scheme, request, "signature", headers={scheme.names[0].signature: changed}))
    return found


def _escaped(scheme: Scheme, request: WebhookRequest) -> dict[str, Any]:
    """Signed over the escaped body, as Box may: sent as it is."""
    body = json.dumps(json.loads(request.body), separators=(",", ":")).replace("/", "\\/").encode()
    signature = scheme.names[0].signature
    made = sign(scheme, signer_of(scheme), body.replace(b"\x7f", b"\\u007f"), MOMENT)[signature]
    assert refusal(scheme, with_header(request, signature, made), now=MOMENT) is None
    return _case(scheme, request, "escaped", expected=True, headers={signature: made})


def _sent(scheme: Scheme, body: bytes, number: int) -> WebhookRequest:
    if scheme.published:
        return published_delivery(scheme, URL, body, MOMENT, delivery_id=f"d-{number}")
    return deliver(scheme, signer_of(scheme), URL, body, MOMENT, delivery_id=f"msg_{number}")


def _changed(signature: str) -> str:
    """The signature with one of its last digits replaced: not the very last, whose bits may not count."""
    place = len(signature.rstrip("=")) - 5
    return f"{signature[:place]}{'0' if signature[place] != '0' else '1'}{signature[place + 1 :]}"


def _case(
    scheme: Scheme, request: WebhookRequest, change: str, *, expected: bool = False, **more: Any
) -> dict[str, Any]:
    headers = {name: request.headers.one(name) for name in request.headers} | more.pop("headers", {})
    return {
        "provider": scheme.name,
        "change": change,
        "expected": expected,
        "secret": secret_of(scheme).value,
        "url": request.url,
        "headers": headers,
        "body": request.body.decode(),
        **more,
    }


def _asked(cases: list[dict[str, Any]]) -> list[Any]:
    if not (FOLDER / "node_modules" / ".package-lock.json").exists():
        npm_install(FOLDER)
    question = {
        "now": MOMENT,
        "certificates": {SNS_CERTIFICATE: certificate().decode()},
        "keys": {"g1": google_pem()},
        "cases": cases,
    }
    done = subprocess.run(
        ["node", "ask.mjs"], cwd=FOLDER, input=json.dumps(question), capture_output=True, text=True, env=with_node()
    )
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers


def test_every_library_of_the_lock_is_asked() -> None:
    packages = json.loads((FOLDER / "package.json").read_text("utf-8"))["dependencies"]
    program = (FOLDER / "ask.mjs").read_text("utf-8")
    assert [name for name in packages if f"'{name}" not in program] == []


@pytest.mark.parametrize("name", ASKED)
def test_every_library_is_named_on_the_page(name: str) -> None:
    from tests.signatures.provider_page import ORACLES

    assert name in ORACLES
