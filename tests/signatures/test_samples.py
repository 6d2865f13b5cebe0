"""Each sample delivery can be signed and verified, and is worth keeping."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.signatures import (
    PRESETS,
    WebhookRequest,
    challenge,
    idempotency_key,
    retained_headers,
    verify,
)
from millrace.signatures.samples import Sample, load_sample, sample_names
from millrace.signatures.signing import deliver
from tests.signatures.cases import NOW, URL, secret_of, signer_of
from tests.signatures.issuers import Makers, keys_of, published_delivery

FOLDER = Path(__file__).parents[2] / "events" / "providers"
NAMES = sample_names(FOLDER)


def sent(sample: Sample) -> WebhookRequest:
    if sample.scheme.published:
        return published_delivery(sample.scheme, URL, sample.body, NOW, sample.headers, sample.delivery_id)
    return deliver(
        sample.scheme,
        signer_of(sample.scheme),
        URL,
        sample.body,
        NOW,
        headers=sample.headers,
        delivery_id=sample.delivery_id,
    )


def test_every_provider_has_a_sample_and_every_file_belongs_to_one() -> None:
    samples = [load_sample(FOLDER, name) for name in NAMES]
    assert {sample.scheme.name for sample in samples} == {*PRESETS, "generic"}
    bodies = {json.loads((FOLDER / f"{name}.sidecar.json").read_text())["body"] for name in NAMES}
    assert {path.name for path in FOLDER.iterdir()} == bodies | {f"{name}.sidecar.json" for name in NAMES}


def test_more_than_sixty_providers_have_a_row_a_sample_and_a_signer() -> None:
    signed = {sample.scheme.name for sample in (load_sample(FOLDER, name) for name in NAMES) if sent(sample)}
    sendable = {name for name in signed & set(PRESETS) if not PRESETS[name].published}
    assert len(sendable) > 60
    assert set(PRESETS) - sendable == {name for name, row in PRESETS.items() if row.published}


@pytest.mark.parametrize("name", NAMES)
def test_sample_is_verified_with_the_headers_of_its_provider(name: str) -> None:
    sample = load_sample(FOLDER, name)
    request = sent(sample)
    verified = verify(sample.scheme, request, [secret_of(sample.scheme)], NOW, keys_of(Makers()))
    assert (challenge(sample.scheme, request, verified) is not None) == name.endswith("_challenge")
    scheme = sample.scheme
    named = bool(scheme.signs_id or scheme.id_field or scheme.id_headers) and name != "slack_challenge"
    assert (verified.delivery_id is not None) == named
    assert idempotency_key(sample.scheme, request, verified).startswith(sample.scheme.name + ":")


@pytest.mark.parametrize("name", NAMES)
def test_sample_keeps_its_own_headers_and_no_proof(name: str) -> None:
    sample = load_sample(FOLDER, name)
    kept = retained_headers(sample.scheme, sent(sample).headers)
    assert set(sample.headers) <= set(kept)
    assert not {names.signature for names in sample.scheme.names} & set(kept)


@pytest.mark.parametrize("name", NAMES)
def test_sample_body_is_what_its_content_type_says(name: str) -> None:
    sample = load_sample(FOLDER, name)
    assert sample.event
    if sample.headers["content-type"] == "application/json":
        assert json.loads(sample.body)
    else:
        assert b"=" in sample.body
