"""Keys in memory whose ids and wrapped keys are as long as those of AWS KMS: what is stored with each content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.model.encryption import DataKey
from millrace.stores.memory.keys import MemoryKeys

#: Of a 256-bit data key, as GenerateDataKey answers.
WRAPPED_BYTES = 184
ARN = "arn:aws:kms:eu-central-1:111122223333:key/0f7a2c1e-1111-2222-3333-444455556666"


class KeysOfKmsSize(MemoryKeys):
    """A key service under one key."""

    def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        made = super().generate(key, context)
        self._own_id = made.key_id
        return replace(made, key_id=ARN, wrapped=made.wrapped.ljust(WRAPPED_BYTES, b"\0"))

    def unwrap(self, key_id: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        return super().unwrap(self._own_id, wrapped[:60], context)
