"""Where a message goes: each kind of target names its destination in its own way."""

from __future__ import annotations

import pytest

from tests.definitions.writing import loaded, messages, queue_text


@pytest.mark.parametrize(
    ("target", "kind", "name"),
    [
        ("command Orders.Ship { id: payload.id }", "command", "Orders.Ship"),
        ('http "https://example.com/in" { id: payload.id }', "http", "https://example.com/in"),
        ('http "http://localhost:8080/in" { id: payload.id }', "http", "http://localhost:8080/in"),
        ('lambda "resize" { id: payload.id }', "lambda", "resize"),
    ],
)
def test_a_target_renders_its_fields(target: str, kind: str, name: str) -> None:
    (found,) = loaded(queue_text(f"map_to: {target}")).queue("Jobs").targets
    assert (found.kind, found.name, found.render({"payload": {"id": 7}})) == (kind, name, {"id": 7})


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("command Ship { id: payload.id }", "a command is named by its entity and its own name"),
        ('command "A.B" { id: payload.id }', "`command` takes a name"),
        ("http example { id: payload.id }", "`http` takes a string"),
        ('http "http://example.com" { id: payload.id }', "an address starts with https://"),
        ('http "https://user@example.com" { id: payload.id }', "this is not an address"),
        ('lambda "no name!" { id: payload.id }', "this is not the name of a Lambda function"),
        ("command A.B { id: payload.a  id: payload.b }", "`id` is mapped twice"),
    ],
)
def test_a_wrong_destination_or_field_is_refused(target: str, message: str) -> None:
    assert any(found.startswith(message) for found in messages(queue_text(f"map_to: {target}")))


def test_an_http_target_has_secrets_of_its_own_in_turn() -> None:
    target = 'http "https://example.com/in" (secret_env: "NEW_KEY"  secret: "ssm:/old") { id: payload.id }'
    (found,) = loaded(queue_text(f"map_to: {target}")).queue("Jobs").targets
    assert [secret.reference for secret in found.secrets] == ["env:NEW_KEY", "ssm:/old"]
    (bare,) = loaded(queue_text('map_to: http "https://example.com/in" (secret_env: "KEY")')).queue("Jobs").targets
    assert (bare.input, bare.secrets[0].reference) == (None, "env:KEY")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ('command A.B (secret_env: "KEY") { id: payload.id }', "`command` signs nothing: only `http` takes a secret"),
        ('http "https://a.example" (secret: "hunter2")', "a secret is named by its place, never written here"),
        ('http "https://a.example" (secret_env: "no name")', "a secret is named by its place, never written here"),
        ('http "https://a.example" (header: "X")', "`header` does not stand in `map_to`"),
    ],
)
def test_what_no_target_signs_with_is_refused(target: str, message: str) -> None:
    assert any(found.startswith(message) for found in messages(queue_text(f"map_to: {target}")))
