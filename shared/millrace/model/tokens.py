"""Bearer tokens: `mrt_<id>_<secret>`, with scopes and tenants.

The secret is 256 random bits and only its SHA-256 is stored, so a copy of the table opens nothing. (A slow hash
guards guessable passwords; nobody guesses 256 bits.) Every refusal looks the same, in words and in time: an unknown
id is compared too, with a digest that nothing has.
"""

from __future__ import annotations

import hmac
import re
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import Protocol

from millrace.model.clock import Clock, Entropy, system_entropy
from millrace.model.errors import InvalidField, NotFound
from millrace.model.queue_spec import QUEUE_NAME, TENANT

PREFIX = "mrt"
ANY_TENANT = "*"
NAME_BYTES = 64
_TOKEN = re.compile(r"mrt_([a-z2-7]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
#: What an unknown token is compared with: the digest of a secret that was thrown away.
_NOTHING = sha256(system_entropy(32)).digest()


class Scope(StrEnum):
    """What a token may do."""

    ENQUEUE = "enqueue"
    CONSUME = "consume"  #: dequeue, ack, nack, release, extend, workflow state
    READ = "read"  #: look at queues, messages, claims and dead letters
    OPERATE = "operate"  #: pause, resume, replay, purge


@dataclass(frozen=True, slots=True)
class Token:
    """A token as stored: all but its secret."""

    id: str
    name: str
    digest: bytes  #: SHA-256 of the secret
    scopes: frozenset[Scope]
    tenants: tuple[str, ...]  #: `*` for every tenant
    created_at: int
    expires_at: int = 0  #: 0: never
    revoked_at: int = 0
    queues: tuple[str, ...] = ()  #: those that it reaches; none named: every one

    def counts(self, now: int) -> bool:
        expired = self.expires_at and self.expires_at <= now
        return not expired and not self.revoked_at


class Tokens(Protocol):
    """Where tokens are kept."""

    def put_token(self, token: Token) -> None:
        """Write it, new or changed."""

    def get_token(self, token_id: str) -> Token | None:
        """One token, strongly consistent: a revoked one is refused at once."""

    def list_tokens(self) -> list[Token]: ...

    def claim_key(self, proposed: bytes) -> bytes:
        """The deployment's key for sealing claims: the one that is kept, else `proposed`, which is then kept."""


def issue(
    tokens: Tokens,
    *,
    name: str,
    scopes: Iterable[Scope],
    tenants: Iterable[str],
    clock: Clock,
    expires_at: int = 0,
    queues: Iterable[str] = (),
    entropy: Entropy = system_entropy,
) -> tuple[Token, str]:
    """Make a token: what is stored, and the text to hand over, which is shown this once."""
    granted, reach = frozenset(scopes), tuple(dict.fromkeys(tenants))
    if not granted:
        raise InvalidField("scopes", "none is given", ", ".join(Scope))
    if not reach or not all(tenant == ANY_TENANT or TENANT.fullmatch(tenant) for tenant in reach):
        raise InvalidField("tenants", f"{list(reach)[:5]!r} do not fit", "names of tenants, or * for every one")
    limited = tuple(dict.fromkeys(queues))
    if not all(QUEUE_NAME.fullmatch(queue) for queue in limited):
        raise InvalidField("queues", f"{list(limited)[:5]!r} do not fit", "names of queues; none for every one")
    if not 1 <= len(name.encode()) <= NAME_BYTES or not name.isprintable():
        raise InvalidField("name", f"{name[:40]!r} does not fit", f"1 to {NAME_BYTES} bytes")
    secret = urlsafe_b64encode(entropy(32)).rstrip(b"=").decode()
    token_id = b32encode(entropy(10)).decode().lower()
    token = Token(token_id, name, _digest(secret), granted, reach, clock(), expires_at, queues=limited)
    tokens.put_token(token)
    return token, f"{PREFIX}_{token_id}_{secret}"


def verify(tokens: Tokens, text: str, now: int) -> Token | None:
    """The token that this text is, while it counts; None for everything else, whatever the reason."""
    found = _TOKEN.fullmatch(text)
    token_id, secret = found.groups() if found else ("", "")
    token = tokens.get_token(token_id) if found else None
    same = hmac.compare_digest(_digest(secret), token.digest if token else _NOTHING)
    return token if token is not None and same and token.counts(now) else None


def revoke(tokens: Tokens, token_id: str, now: int) -> Token:
    """Make a token count no more. Revoking it twice keeps the first time. Raises NotFound."""
    token = tokens.get_token(token_id)
    if token is None:
        raise NotFound("token", token_id)
    if not token.revoked_at:
        token = replace(token, revoked_at=now)
        tokens.put_token(token)
    return token


def bearer(authorization: str) -> str:
    """The token of an `Authorization: Bearer …` header; empty where there is none."""
    scheme, _, text = authorization.strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
