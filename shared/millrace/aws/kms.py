"""Keys in AWS KMS."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from millrace.model.encryption import DataKey
from millrace.model.errors import KeyLost, KeyUnavailable

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

T = TypeVar("T")
#: Two tries and the pause between them fit into the time that a webhook's sender waits, with the writes that follow.
CONNECT_S, READ_S, ATTEMPTS = 0.5, 1.0, 2
#: Answers that nothing will change: the key is gone, or did not wrap these bytes for this tenant's queue. Not among
#: them is KMSInvalidStateException: a key that is to be deleted can still be kept.
_LOST = frozenset({"NotFoundException", "InvalidCiphertextException", "IncorrectKeyException"})


class KmsKeys:
    """KMS's keys by their aliases and ARNs. Few apps have encrypted queues, so the client is made with the first call.

    The key is named when it decrypts: else KMS answers of a deleted key what it answers where a role may not use it.
    """

    def __init__(
        self, client: KMSClient | None = None, *, region: str | None = None, endpoint_url: str | None = None
    ) -> None:
        self._client = client
        self._region = region
        self._endpoint_url = endpoint_url
        self._making = threading.Lock()  # boto3 makes clients for one thread at a time

    def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        made = self._asked(
            key, lambda kms: kms.generate_data_key(KeyId=key, KeySpec="AES_256", EncryptionContext=context)
        )
        return DataKey(made["KeyId"], made["CiphertextBlob"], made["Plaintext"])

    def unwrap(self, key_id: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        found = self._asked(
            key_id,
            lambda kms: kms.decrypt(KeyId=key_id, CiphertextBlob=wrapped, EncryptionContext=context),
            lost=_LOST,
        )
        return found["Plaintext"]

    def _asked(self, key: str, ask: Callable[[KMSClient], T], lost: frozenset[str] = frozenset()) -> T:
        client = self._connected()
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return ask(client)
        except ClientError as error:
            if error.response["Error"]["Code"] in lost:
                raise KeyLost(key) from error
            raise KeyUnavailable(key, f"{error}.") from error
        except BotoCoreError as error:
            raise KeyUnavailable(key, f"KMS did not answer: {error}.") from error

    def _connected(self) -> KMSClient:
        with self._making:
            if self._client is None:
                import boto3
                from botocore.config import Config

                config = Config(
                    connect_timeout=CONNECT_S,
                    read_timeout=READ_S,
                    retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                )
                self._client = boto3.client(
                    "kms", config=config, region_name=self._region, endpoint_url=self._endpoint_url
                )
            return self._client
