"""`encrypt: "alias/…"` is checked when it is compiled: its form, its marks, and what it excludes."""

from __future__ import annotations

import pytest

from millrace.definitions.explain import limits
from tests.definitions.writing import loaded, only_message, queue_text

ARN = "arn:aws:kms:eu-west-1:111122223333"
KEY = "0f7a2c1e-1111-2222-3333-444455556666"


@pytest.mark.parametrize(
    "key",
    ["alias/shop", "alias/shop-{tenant}", "alias/team/shop_2", f"{ARN}:key/{KEY}", f"{ARN}:alias/shop-{{tenant}}"],
)
def test_a_key_is_kept_as_it_is_written(key: str) -> None:
    queue = loaded(queue_text(f'encrypt: "{key}"')).queue("Jobs")
    assert queue.spec.encrypt == key
    assert queue.spec.key_of("acme") == key.replace("{tenant}", "acme")
    told = dict(limits(queue))
    assert key in told["encrypted"]
    assert "packing" in told, "an encrypted queue has no dictionary"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("alias/shop-{tennant}", "knows no {tennant} | did you mean `{tenant}`?"),
        ("alias/shop-{tenant", "knows no {tenant |"),
        ("alias/{queue}", "knows no {queue}"),
        ("aliass/shop", "names no KMS key | did you mean `alias`?"),
        ("shop", 'names no KMS key | write "alias/name"'),
        ("alias/sh op", "names no KMS key"),
        ("alias/", "names no KMS key"),
        (KEY, "the id of a key"),
        ("alias/aws/dynamodb", "AWS's own"),
        (f"{ARN}:alias/aws/s3", "AWS's own"),
        (f"{ARN}:keys/{KEY}", "names no KMS key"),
        ("alias/{tenant}" + "x" * 220, "longest tenant"),
        ("", "1 to 256 printable characters"),
    ],
)
def test_what_names_no_key_is_refused_with_what_to_write(key: str, said: str) -> None:
    assert said in only_message(queue_text(f'encrypt: "{key}"'))


def test_a_key_is_text() -> None:
    assert "`encrypt` must be a string" in only_message(queue_text("encrypt: true"))


def test_a_dictionary_and_a_key_exclude_each_other() -> None:
    assert "hold in plain" in only_message(queue_text('encrypt: "alias/a"  dictionary: true'))
    assert not loaded(queue_text('encrypt: "alias/a"  dictionary: false')).queue("Jobs").spec.shares_dictionary


def test_an_encrypted_queue_takes_no_uploads() -> None:
    text = queue_text('encrypt: "alias/a"  max_body_bytes: 10000000', message="")
    assert "an encrypted queue takes bodies of at most" in only_message(text)
