"""Secrets with a name and a validity window, and the keys made of them."""

from __future__ import annotations

import base64
import binascii
from dataclasses import field
from typing import TYPE_CHECKING

from millrace.model.values import dataclass
from millrace.signatures.errors import ConfigurationMissing

if TYPE_CHECKING:
    from millrace.signatures.scheme import KeyForm, Scheme

_SHARED, _PUBLIC, _PRIVATE = "whsec_", "whpk_", "whsk_"


@dataclass(frozen=True, slots=True)
class Secret:
    """One secret of a webhook. Its value is in no repr, no text and no comparison message.

    Raises ConfigurationMissing for an empty value: an empty key would verify what anyone can sign.
    """

    name: str  #: what metrics and logs call it
    value: str = field(repr=False)
    not_before_ms: int | None = None  #: first moment at which it counts
    not_after_ms: int | None = None  #: last moment at which it counts

    def __post_init__(self) -> None:
        if not self.value.strip():
            raise ConfigurationMissing(f"secret {self.name!r} is empty")
        if not self.value.isprintable():
            raise ConfigurationMissing(f"secret {self.name!r} holds characters that no provider signs with")

    def live(self, now_ms: int) -> bool:
        """Whether the secret counts at that moment; both ends of the window included."""
        begun = self.not_before_ms is None or self.not_before_ms <= now_ms
        ended = self.not_after_ms is not None and self.not_after_ms < now_ms
        return begun and not ended

    def raw(self) -> bytes:
        """The key of every scheme that signs with the text of the secret itself."""
        return self.value.encode("utf-8")

    @property
    def public(self) -> bool:
        """A Standard Webhooks public key: verifies `v1a` and must never be used as an HMAC key."""
        return self.value.startswith(_PUBLIC)

    @property
    def private(self) -> bool:
        """A Standard Webhooks private key: signs `v1a`."""
        return self.value.startswith(_PRIVATE)

    def key(self, form: KeyForm) -> bytes:
        """The HMAC key that this secret is, in the form in which the provider gives it out."""
        if form == "text":
            return self.raw()
        if form == "standard":
            return self.shared_key()
        text = self.value.strip()
        found = unhex(text) if form == "hex" else unbase64(text + "=" * (-len(text) % 4))
        if not found:
            raise ConfigurationMissing(f"secret {self.name!r} is not {form}")
        return found

    def proves(self, scheme: Scheme, signature: bytes, message: bytes) -> bool:
        """Whether a signature was made by the private half of this public key (Ed25519, or ECDSA on P-256)."""
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec, ed25519
        except ModuleNotFoundError:
            raise ConfigurationMissing(f"secret {self.name!r} needs the package cryptography") from None

        try:
            if scheme.algorithm == "ed25519":
                ed25519.Ed25519PublicKey.from_public_bytes(self.key(scheme.key)).verify(signature, message)
                return True
            public = serialization.load_der_public_key(self.key(scheme.key))
            if not isinstance(public, ec.EllipticCurvePublicKey):
                raise ValueError("another kind of key")
            public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        except ValueError:
            raise ConfigurationMissing(f"secret {self.name!r} is no public key for {scheme.algorithm}") from None
        return True

    def signs(self, scheme: Scheme, message: bytes) -> bytes:
        """The signature by this private key: an Ed25519 seed, or PKCS 8 for ECDSA, written in the scheme's form."""
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519

        try:
            if scheme.algorithm == "ed25519":
                return ed25519.Ed25519PrivateKey.from_private_bytes(self.key(scheme.key)).sign(message)
            private = serialization.load_der_private_key(self.key(scheme.key), None)
            if not isinstance(private, ec.EllipticCurvePrivateKey):
                raise ValueError("another kind of key")
            return private.sign(message, ec.ECDSA(hashes.SHA256()))
        except ValueError:
            raise ConfigurationMissing(f"secret {self.name!r} is no private key for {scheme.algorithm}") from None

    def shared_key(self) -> bytes:
        """The HMAC key of a Standard Webhooks secret: the base64 after `whsec_`."""
        if self.public or self.private:
            raise ConfigurationMissing(f"secret {self.name!r} is an asymmetric key, not a shared one")
        return self._decoded(_SHARED)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether an Ed25519 signature of the message was made by this key's private half."""
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ModuleNotFoundError:
            raise ConfigurationMissing(f"secret {self.name!r} needs the package cryptography") from None

        key = self._decoded(_PUBLIC)
        if len(key) != 32:
            raise ConfigurationMissing(f"secret {self.name!r} is not an Ed25519 public key")
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def ed25519(self, message: bytes) -> bytes:
        """The Ed25519 signature of a message by this private key (`whsk_`, seed or seed and public half)."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = self._decoded(_PRIVATE)
        if len(key) not in (32, 64):
            raise ConfigurationMissing(f"secret {self.name!r} is not an Ed25519 private key")
        return Ed25519PrivateKey.from_private_bytes(key[:32]).sign(message)

    def _decoded(self, prefix: str) -> bytes:
        text = self.value.removeprefix(prefix)
        decoded = unbase64(text + "=" * (-len(text) % 4))
        if not decoded:
            raise ConfigurationMissing(f"secret {self.name!r} is not base64 after {prefix!r}")
        return decoded


def unhex(text: str) -> bytes:
    """The bytes of hex without spaces; empty for anything else."""
    try:
        return binascii.unhexlify(text)
    except (binascii.Error, ValueError):
        return b""


def unbase64(text: str) -> bytes:
    """The bytes of strict base64; empty for anything else."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
