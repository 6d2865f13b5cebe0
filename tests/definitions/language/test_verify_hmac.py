"""Every setting of `verify_hmac` that the page describes, in a definition that is compiled and verifies.

Deliveries are signed here by the formula, with the standard library alone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from millrace.signatures import Scheme, Secret, WebhookRequest, idempotency_key, scheme_from, verify
from millrace.signatures.presets import GENERIC
from tests.definitions.writing import MESSAGE, loaded, messages
from tests.signatures.cases import refusal

PAGE = Path(__file__).parents[3] / "shared" / "millrace" / "definitions" / "README.md"
NOW = 1_772_442_847_000
BODY = '{"gate": "ü 3"}'.encode()
URL = "https://hooks.example.com/hook/gate"
KEY = b"sixteen bytes!!!"
PAIR = ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(KEY).digest())
CURVE = ec.derive_private_key(7, ec.SECP256R1())


def mac(data: bytes = BODY, key: bytes = b"secret", algorithm: str = "sha256") -> bytes:
    return hmac.new(key, data, algorithm).digest()


@dataclass(frozen=True)
class Example:
    """One definition, and a delivery that it takes."""

    settings: str
    headers: dict[str, str] = field(default_factory=dict)
    secret: str = "secret"
    url: str = URL
    body: bytes = BODY


def raw(pair: ed25519.Ed25519PrivateKey) -> str:
    return pair.public_key().public_bytes_raw().hex()


def spki(pair: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return b64encode(pair.public_key().public_bytes(*form)).decode()


def in_body() -> bytes:
    stamp = str(NOW // 1000)
    proof = mac(f"{stamp}t-1".encode()).hex()
    return json.dumps({"sig": {"time": stamp, "id": "t-1", "proof": proof}}).encode()


def separated(sign: str) -> Example:
    return Example(f'prefix: "v1=" separator: "{sign}"', {"x-gate": f"v1={'0' * 64}{sign}v1={mac().hex()}"})


def dated(unit: str, stamp: str) -> Example:
    proof = mac(f"{stamp}.".encode() + BODY).hex()
    return Example(f'timestamp_header: "X-Time" timestamp_unit: {unit}', {"x-gate": proof, "x-time": stamp})


def words(name: str) -> dict[str, Callable[[], Example]]:
    """An example for each word of a setting that takes only some."""
    made: dict[str, dict[str, Callable[[], Example]]] = {
        "algorithm": {
            "sha256": lambda: Example("algorithm: sha256", {"x-gate": mac().hex()}),
            "sha1": lambda: Example("algorithm: sha1", {"x-gate": mac(algorithm="sha1").hex()}),
            "sha512": lambda: Example("algorithm: sha512", {"x-gate": mac(algorithm="sha512").hex()}),
            "token": lambda: Example("algorithm: token", {"x-gate": "secret"}),
            "ed25519": lambda: Example(
                "algorithm: ed25519 key: hex",
                {"x-gate": PAIR.sign(BODY).hex()},
                raw(PAIR),
            ),
            "ecdsa": lambda: Example(
                "algorithm: ecdsa key: base64",
                {"x-gate": CURVE.sign(BODY, ec.ECDSA(hashes.SHA256())).hex()},
                spki(CURVE),
            ),
        },
        "encoding": {
            "hex": lambda: Example("encoding: hex", {"x-gate": mac().hex()}),
            "hex_upper": lambda: Example("encoding: hex_upper", {"x-gate": mac().hex().upper()}),
            "base64": lambda: Example("encoding: base64", {"x-gate": b64encode(mac()).decode()}),
            "base64url": lambda: Example(
                "encoding: base64url", {"x-gate": urlsafe_b64encode(mac()).rstrip(b"=").decode()}
            ),
            "plain": lambda: Example("algorithm: token encoding: plain", {"x-gate": "secret"}),
        },
        "key": {
            "text": lambda: Example("key: text", {"x-gate": mac().hex()}),
            "base64": lambda: Example("key: base64", {"x-gate": mac(key=KEY).hex()}, b64encode(KEY).decode()),
            "hex": lambda: Example("key: hex", {"x-gate": mac(key=KEY).hex()}, KEY.hex()),
            "standard": lambda: Example(
                "key: standard", {"x-gate": mac(key=KEY).hex()}, f"whsec_{b64encode(KEY).decode()}"
            ),
        },
        "place": {
            "header": lambda: Example("place: header", {"x-gate": mac().hex()}),
            "query": lambda: Example("place: query", url=f"{URL}?X-Gate={mac().hex()}"),
            "body": lambda: Example(
                'place: body timestamp_header: "sig.time" id_header: "sig.id" template: "{timestamp}{id}"',
                body=in_body(),
            ),
        },
        "separator": {sign: partial(separated, sign) for sign in (",", ";", " ", "&")},
        "timestamp_unit": {
            "seconds": partial(dated, "seconds", "1772442847"),
            "milliseconds": partial(dated, "milliseconds", "1772442847000"),
            "rfc3339": partial(dated, "rfc3339", "2026-03-02T09:14:07Z"),
        },
    }
    return made[name]


#: Settings whose value is free.
FREE: dict[str, Callable[[], Example]] = {
    "header": lambda: Example("", {"x-gate": mac().hex()}),
    "prefix": lambda: Example('prefix: "sha256="', {"x-gate": f"sha256={mac().hex()}"}),
    "template": lambda: Example('template: "{url}|{body}!"', {"x-gate": mac(URL.encode() + b"|" + BODY + b"!").hex()}),
    "timestamp_header": lambda: Example(
        'timestamp_header: "X-Time"', {"x-gate": mac(b"1772442847." + BODY).hex(), "x-time": "1772442847"}
    ),
    "timestamp_prefix": lambda: Example(
        'timestamp_prefix: "ts=" prefix: "h1=" separator: ";" template: "{timestamp}:{body}"',
        {"x-gate": f"ts=1772442847;h1={mac(b'1772442847:' + BODY).hex()}"},
    ),
    "tolerance_seconds": lambda: Example(
        'timestamp_header: "X-Time" tolerance_seconds: 900',
        {"x-gate": mac(b"1772441947." + BODY).hex(), "x-time": "1772441947"},
    ),
    "id_header": lambda: Example(
        'id_header: "X-Id" template: "{id}.{body}"', {"x-gate": mac(b"d-1." + BODY).hex(), "x-id": "d-1"}
    ),
    "success_status": lambda: Example("success_status: 200", {"x-gate": mac().hex()}),
    "overload_status": lambda: Example("overload_status: 429", {"x-gate": mac().hex()}),
    "secret": lambda: Example('secret: "env:OTHER"', {"x-gate": mac().hex()}),
    "secret_env": lambda: Example("", {"x-gate": mac().hex()}),
}
EXAMPLES = {
    **{(name, ""): made for name, made in FREE.items()},
    **{(name, str(word)): made for name, allowed in GENERIC.items() if allowed for word, made in words(name).items()},
}


def described() -> dict[str, str]:
    """The settings of the page's table, each with its row."""
    table = PAGE.read_text("utf-8").partition("| setting of `verify_hmac` |")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    for line in table.splitlines()[2:]:
        names, _, rest = line.removeprefix("| ").partition(" | ")
        found |= dict.fromkeys(re.findall(r"`(\w+)`", names), rest)
    return found


def compiled(example: Example) -> Scheme:
    secret = "" if "secret:" in example.settings else 'secret_env: "S"'
    hook = f'verify_hmac {{ header: "X-Gate" {example.settings} {secret} }}'
    if "place: body" in example.settings:
        hook = hook.replace('"X-Gate"', '"sig.proof"')
    written = f"app T {{ queue Jobs {{ {MESSAGE} drained_by: api }} webhook W {{ queue: Jobs {hook} }} }}"
    settings = loaded(written).webhook("W").signature_settings
    assert settings is not None
    return scheme_from(settings)


def request_of(example: Example) -> WebhookRequest:
    return WebhookRequest.build("POST", example.url, example.headers, example.body)


def test_every_setting_and_word_is_described_and_has_an_example_here() -> None:
    table = described()
    assert set(table) == {"header", "secret", "secret_env", *GENERIC}
    assert {name for name, _ in EXAMPLES} == set(table)
    for name, allowed in GENERIC.items():
        assert {word for other, word in EXAMPLES if other == name and word} == {str(word) for word in allowed or ()}
        for word in allowed or ():
            assert re.search(rf"(?<!\w){re.escape(word)}(?!\w)", table[name]), (name, word)


@pytest.mark.parametrize("name", EXAMPLES, ids=lambda pair: f"{pair[0]}-{pair[1]}".strip("-"))
def test_a_definition_with_the_setting_takes_what_the_formula_signs(name: tuple[str, str]) -> None:
    example = EXAMPLES[name]()
    scheme, secret = compiled(example), Secret("s", example.secret)
    request = request_of(example)
    assert refusal(scheme, request, [secret], NOW) is None
    if scheme.algorithm != "token" and not scheme.partial:
        changed = WebhookRequest.build("POST", example.url, example.headers, example.body + b" ")
        assert refusal(scheme, changed, [secret], NOW) is not None
    assert refusal(scheme, request, [_other(scheme)], NOW) is not None


def _other(scheme: Scheme) -> Secret:
    """A secret of the same form that signed nothing."""
    if scheme.algorithm == "ed25519":
        return Secret("o", raw(ed25519.Ed25519PrivateKey.from_private_bytes(b"o" * 32)))
    if scheme.algorithm == "ecdsa":
        return Secret("o", spki(ec.derive_private_key(8, ec.SECP256R1())))
    return Secret("o", {"hex": "00" * 16, "base64": b64encode(bytes(16)).decode()}.get(scheme.key, "b3RoZXI="))


def test_the_rest_of_what_the_page_says_of_them_holds() -> None:
    plain = compiled(Example(""))
    assert (plain.encoding, plain.algorithm, plain.template) == ("hex", "sha256", "{body}")
    assert plain.tolerance_seconds is None
    assert (plain.facts.success_status, plain.facts.overload_status) == (202, 503)
    answered = compiled(Example("success_status: 200 overload_status: 429"))
    assert (answered.facts.success_status, answered.facts.overload_status) == (200, 429)
    dated = compiled(Example('timestamp_header: "X-Time"'))
    assert (dated.template, dated.tolerance_seconds, dated.replay_seconds) == ("{timestamp}.{body}", 300, 600)
    signed = FREE["id_header"]()
    verified = verify(compiled(signed), request_of(signed), [Secret("s", "secret")], NOW)
    assert idempotency_key(compiled(signed), request_of(signed), verified) == "generic:id:d-1"
    unsigned = Example('id_header: "X-Id"', {"x-gate": mac().hex(), "x-id": "d-1"})
    verified = verify(compiled(unsigned), request_of(unsigned), [Secret("s", "secret")], NOW)
    assert idempotency_key(compiled(unsigned), request_of(unsigned), verified).startswith("generic:sha256:")


def test_basic_authentication_is_written_as_the_page_says() -> None:
    line = next(line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("Basic authentication is"))
    written = line.split("`")[1]
    scheme = compiled(Example(written.partition('"Authorization"')[2]))
    sent = b64encode(b"ada:lovelace").decode()
    request = WebhookRequest.build("POST", URL, {"x-gate": f"Basic {sent}"}, BODY)
    assert b64decode(sent) == b"ada:lovelace"
    assert refusal(scheme, request, [Secret("s", "ada:lovelace")], NOW) is None
    assert refusal(scheme, request, [Secret("s", "ada:byron")], NOW) is not None


def test_a_signature_in_the_body_cannot_cover_the_body() -> None:
    for settings in ("", 'template: "{timestamp}{body}" timestamp_header: "sig.time"'):
        hook = f'verify_hmac {{ header: "sig.proof" place: body {settings} secret_env: "S" }}'
        found = messages(f"app T {{ queue Jobs {{ {MESSAGE} drained_by: api }} webhook W {{ queue: Jobs {hook} }} }}")
        assert any("a signature in the body cannot cover the body" in one for one in found), found
    token = compiled(Example("place: body algorithm: token"))
    request = WebhookRequest.build("POST", URL, {}, b'{"sig": {"proof": "secret"}}')
    assert refusal(token, request, [Secret("s", "secret")], NOW) is None
