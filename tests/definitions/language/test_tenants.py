"""`tenant NAME { … }`: declared, with secrets of its own."""

from __future__ import annotations

import pytest

from millrace.definitions.model import TenantPaths
from millrace.model.errors import NotFound
from tests.definitions.writing import MESSAGE, loaded, messages

QUEUE = f"queue Jobs {{ {MESSAGE} drained_by: api }}"
HOOK = 'webhook W { queue: Jobs provider: github secret_env: "COMMON" }'


def test_a_tenant_without_a_secret_of_its_own_is_refused_unless_the_webhook_shares() -> None:
    definitions = loaded(f'app T {{ {QUEUE} {HOOK} tenant acme {{ }} tenant "eu-west" {{ }} }}')
    assert definitions.tenants == ("acme", "eu-west")
    assert definitions.webhook("W").tenants is TenantPaths.OWN
    for tenant in ("acme", "eu-west", "made-up"):
        with pytest.raises(NotFound):
            definitions.webhook_of(tenant, "W")
    assert definitions.webhook_of("main", "W", is_default=True).secrets[0].name == "COMMON"
    shared = HOOK.replace("queue: Jobs", "queue: Jobs tenants: shared")
    sharing = loaded(f"app T {{ {QUEUE} {shared} tenant acme {{ }} }}")
    assert sharing.webhook_of("acme", "W").secrets[0].name == "COMMON"
    with pytest.raises(NotFound):
        sharing.webhook_of("made-up", "W")


def test_a_tenants_own_secrets_take_the_place_of_the_common_one() -> None:
    own = 'tenant acme { webhook W { secret_env: "ACME" secret "env:OLD" { valid_until: "2027-01-01T00:00:00Z" } } }'
    definitions = loaded(f"app T {{ {QUEUE} {HOOK} {own} }}")
    assert [secret.name for secret in definitions.webhook_of("acme", "W").secrets] == ["ACME", "OLD"]
    assert [secret.name for secret in definitions.webhook("W").secrets] == ["COMMON"]
    with pytest.raises(NotFound):
        definitions.webhook_of("acme", "Another")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("tenant { }", "this is not the name of a tenant"),
        ('tenant "a b" { }', "this is not the name of a tenant"),
        ('tenant "a/b" { }', "this is not the name of a tenant"),
        ("tenant hook { }", "would make `/hook/hook/…` a puzzle"),
        ("tenant acme { } tenant acme { }", "there are two tenants named `acme`"),
        ('tenant acme { webhook X { secret_env: "S" } }', "there is no webhook `X`"),
        ("tenant acme { webhook W { } }", "`acme` has no secret for `W`"),
        ('tenant acme { webhook W { secret_env: "A" } webhook W { secret_env: "B" } }', "`W` stands here twice"),
        ('tenant acme { webhook Open { secret_env: "A" } }', "`Open` verifies nothing"),
        ("tenant acme { webhook W { provider: github } }", "`provider`"),
        ("tenant acme { queue: Jobs }", "`queue`"),
    ],
)
def test_what_is_wrong_with_a_tenant_is_said(written: str, said: str) -> None:
    found = messages(f"app T {{ {QUEUE} {HOOK} webhook Open {{ queue: Jobs verify: none }} {written} }}")
    assert any(said in message for message in found), found


def test_a_word_that_tenants_does_not_know_is_refused() -> None:
    (found,) = messages(f"app T {{ {QUEUE} {HOOK.replace('queue: Jobs', 'queue: Jobs tenants: all')} }}")
    assert "`tenants` must be one of own, shared" in found
