"""Encrypted content decrypts in its own place, unchanged, and nowhere else."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from millrace.model.encryption import Belonging, DataKey, EncryptedContent, encrypt
from millrace.model.errors import BodyLost

KEY = DataKey("arn:aws:kms:eu-west-1:111122223333:key/1234abcd", b"w" * 184, os.urandom(32))
OURS = Belonging("body", "acme", "Jobs", "m1", "n1", "5 zlib")


def decrypted(stored: bytes, belonging: Belonging, secret: bytes = KEY.secret) -> bytes:
    return EncryptedContent.read(stored, belonging).decrypt(secret, belonging)


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)) * 400])
def test_content_comes_back(content: bytes) -> None:
    stored = encrypt(content, KEY, OURS, os.urandom)
    found = EncryptedContent.read(stored, OURS)
    assert (found.key_id, found.wrapped) == (KEY.key_id, KEY.wrapped)
    assert decrypted(stored, OURS) == content
    assert len(stored) == len(content) + 4 + len(KEY.key_id) + len(KEY.wrapped) + 12 + 16


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "result"},
        {"tenant": "globex"},
        {"queue": "Others"},
        {"message_id": "m2"},
        {"nonce": "n2"},
        {"detail": "6 zlib"},
        {"tenant": "acmeJ", "queue": "obs"},  # the same letters in another place
    ],
    ids=lambda changed: " ".join(changed),
)
def test_content_in_the_place_of_another_does_not_decrypt(changed: dict[str, str]) -> None:
    stored = encrypt(b"hello", KEY, OURS, os.urandom)
    with pytest.raises(BodyLost, match="is not the"):
        decrypted(stored, replace(OURS, **changed))


def test_no_changed_byte_is_overlooked() -> None:
    stored = encrypt(b"hello", KEY, OURS, os.urandom)
    for position in range(len(stored)):
        changed = bytearray(stored)
        changed[position] ^= 1
        with pytest.raises(BodyLost):
            decrypted(bytes(changed), OURS)


def test_nothing_that_is_too_short_is_read() -> None:
    stored = encrypt(b"", KEY, OURS, os.urandom)
    for length in range(len(stored)):
        with pytest.raises(BodyLost):
            decrypted(stored[:length], OURS)
    with pytest.raises(BodyLost):
        decrypted(stored, OURS, os.urandom(32))


def test_a_data_key_shows_no_secret() -> None:
    assert repr(KEY.secret) not in repr(KEY)
