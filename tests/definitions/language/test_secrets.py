"""Secrets are named by their place, and never written in a definition."""

from __future__ import annotations

import pytest

from tests.definitions.writing import MESSAGE, loaded, messages

QUEUE = f"queue Jobs {{ {MESSAGE} drained_by: api }}"


def written(secret: str) -> str:
    return f"app T {{ {QUEUE} webhook W {{ queue: Jobs provider: github {secret} }} }}"


def test_every_secret_is_read_in_its_order() -> None:
    hook = loaded(written('secret: "ssm:/a" secret_env: "B" secret "secretsmanager:c" { }')).webhook("W")
    assert [secret.reference for secret in hook.secrets] == ["env:B", "ssm:/a", "secretsmanager:c"]


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ('secret: "whsec_c2VjcmV0"', "never written here"),
        ('secret: "vault:x"', "never written here"),
        ('secret: "env:A B"', "never written here"),
        ('secret_env: "1ST"', "not the name of an environment variable"),
        ("secret Name { }", "a secret is named by a string"),
    ],
)
def test_what_names_no_place_is_refused(secret: str, said: str) -> None:
    assert any(said in message for message in messages(written(secret)))
