"""Encrypted content: what an encrypted queue keeps of a message, before it is stored.

    1 byte    version of this form
    1 byte    length of the next: the KMS key's ARN, in ASCII
    2 bytes   length of the next: the data key as KMS wrapped it
    12 bytes  nonce
    the rest  AES-256-GCM over the content, with its tag

All before the nonce, and what the content belongs to, is authenticated with it: what lies anywhere but in its own
place, or was changed, does not decrypt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from millrace.model.clock import Entropy
from millrace.model.errors import BodyLost
from millrace.model.values import dataclass

FORM = 1
NONCE_BYTES = 12
TAG_BYTES = 16


@dataclass(frozen=True, slots=True)
class DataKey:
    """What contents are encrypted with, and how it is stored beside them."""

    key_id: str  #: of the KMS key that wrapped it: its ARN
    wrapped: bytes
    secret: bytes = field(repr=False)


class KeyService(Protocol):
    """Where keys are that never leave it: AWS KMS."""

    def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        """A new data key under the KMS key of this name. Raises KeyUnavailable."""
        ...

    def unwrap(self, key_id: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        """The secret of a data key. Raises KeyUnavailable, or KeyLost where nobody can unwrap it any more."""
        ...


@dataclass(frozen=True, slots=True)
class Belonging:
    """What encrypted content belongs to. Content of one decrypts in the place of no other."""

    kind: str  #: body, result or state
    tenant: str
    queue: str
    message_id: str
    nonce: str  #: of the acceptance
    detail: str = ""  #: what else must be as it was: a body's size and packing, the version of a claim or a state

    @property
    def context(self) -> dict[str, str]:
        """KMS's encryption context: CloudTrail logs it in plain, and key policies can ask for it."""
        return {"tenant": self.tenant, "queue": self.queue}

    def authenticated(self, head: bytes) -> bytes:
        """The associated data: each part with its length before it, so that no two belongings spell the same."""
        parts = [
            part.encode() for part in (self.kind, *self.context.values(), self.message_id, self.nonce, self.detail)
        ]
        return head + b"".join(len(part).to_bytes(2, "big") + part for part in parts)

    def lost(self) -> BodyLost:
        """What to raise where stored bytes are not its content."""
        return BodyLost(f"What is stored is not the {self.kind} that was encrypted for message {self.message_id!r}.")


def encrypt(content: bytes, data_key: DataKey, belonging: Belonging, entropy: Entropy) -> bytes:
    """The content encrypted, with all that is needed to read it but the KMS key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # only encrypted queues pay for the import

    key_id, wrapped = data_key.key_id.encode("ascii"), data_key.wrapped
    head = b"".join((bytes((FORM, len(key_id))), key_id, len(wrapped).to_bytes(2, "big"), wrapped))
    nonce = entropy(NONCE_BYTES)
    return head + nonce + AESGCM(data_key.secret).encrypt(nonce, content, belonging.authenticated(head))


@dataclass(frozen=True, slots=True)
class EncryptedContent:
    """Encrypted bytes, taken apart."""

    head: bytes
    key_id: str
    wrapped: bytes
    nonce: bytes
    ciphertext: bytes

    @classmethod
    def read(cls, stored: bytes, belonging: Belonging) -> EncryptedContent:
        """Raises BodyLost for what has not the form."""
        id_end = 2 + (stored[1] if len(stored) > 1 else 0)
        wrapped_end = id_end + 2 + int.from_bytes(stored[id_end : id_end + 2], "big")
        nonce_end = wrapped_end + NONCE_BYTES
        key_id, wrapped = stored[2:id_end], stored[id_end + 2 : wrapped_end]
        if stored[:1] != bytes((FORM,)) or not key_id.isascii() or len(stored) < nonce_end + TAG_BYTES:
            raise belonging.lost()
        return cls(stored[:wrapped_end], key_id.decode(), wrapped, stored[wrapped_end:nonce_end], stored[nonce_end:])

    def decrypt(self, secret: bytes, belonging: Belonging) -> bytes:
        """The content. Raises BodyLost where these bytes are not what was encrypted for this place."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(secret).decrypt(self.nonce, self.ciphertext, belonging.authenticated(self.head))
        except (InvalidTag, ValueError) as error:
            raise belonging.lost() from error
