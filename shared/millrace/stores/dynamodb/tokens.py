"""Tokens in the queue table, under one partition of their own: pk `TOKENS`, sk the token's id.

The key that seals claims has another (`CLAIM_KEY`): whoever hands out claims needs it, and must not reach tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from millrace.model.tokens import Scope, Token
from millrace.stores.dynamodb.conditions import ABSENT
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient
from millrace.stores.dynamodb.writes import put

if TYPE_CHECKING:
    from millrace.model.tokens import Tokens
    from millrace.stores.dynamodb.client import AnyClient

PARTITION = "TOKENS"
CLAIM_KEY = "CLAIM_KEY"
#: Its attribute: none that a role may scan for (`scans.SCANNED`).
SEALING = "sealing"
#: How long an expired token is still listed.
KEEP_SECONDS = 30 * 86_400


class DynamoTokens:
    """Tokens of one deployment. One write unit to issue or revoke, one strongly consistent read to check."""

    def __init__(self, client: AnyClient, table: str, *, calls: RetryingClient | None = None) -> None:
        self._calls = calls or RetryingClient(client)
        self._table = table

    def put_token(self, token: Token) -> None:
        item: dict[str, Any] = {
            **_key(token.id),
            "name": {"S": token.name},
            "digest": {"B": token.digest},
            "scopes": {"SS": sorted(token.scopes)},
            "tenants": {"SS": list(token.tenants)},
            "created": {"N": str(token.created_at)},
            "expires": {"N": str(token.expires_at)},
            "revoked": {"N": str(token.revoked_at)},
        }
        if token.queues:  # a set of DynamoDB cannot be empty
            item["queues"] = {"SS": list(token.queues)}
        if token.expires_at:
            item["ttl"] = {"N": str(token.expires_at // 1000 + KEEP_SECONDS)}
        self._calls.send("put_item", TableName=self._table, Item=item)

    def get_token(self, token_id: str) -> Token | None:
        item = self._calls.get_item(self._table, _key(token_id))
        return _token_of(item) if item else None

    def list_tokens(self) -> list[Token]:
        return [_token_of(item) for item in self._calls.query_all(self._table, PARTITION)]

    def claim_key(self, proposed: bytes) -> bytes:
        key = {"pk": {"S": CLAIM_KEY}, "sk": {"S": "K"}}
        kept = self._calls.get_item(self._table, key)
        if kept:
            return bytes(kept[SEALING]["B"])
        write = put(self._table, {**key, SEALING: {"B": proposed}}, ABSENT)
        try:
            self._calls.send("put_item", **write.request())
        except ConditionFailed as refusal:
            if refusal.item is None:
                raise
            return bytes(refusal.item[SEALING]["B"])
        return proposed


def _key(sk: str) -> dict[str, Any]:
    return {"pk": {"S": PARTITION}, "sk": {"S": sk}}


def _token_of(item: Mapping[str, Any]) -> Token:
    return Token(
        id=item["sk"]["S"],
        name=item["name"]["S"],
        digest=bytes(item["digest"]["B"]),
        scopes=frozenset(Scope(scope) for scope in item["scopes"]["SS"]),
        tenants=tuple(item["tenants"]["SS"]),
        created_at=int(item["created"]["N"]),
        expires_at=int(item["expires"]["N"]),
        revoked_at=int(item["revoked"]["N"]),
        queues=tuple(item["queues"]["SS"]) if "queues" in item else (),
    )


if TYPE_CHECKING:

    def _keeps_the_interface(tokens: DynamoTokens) -> Tokens:
        return tokens
