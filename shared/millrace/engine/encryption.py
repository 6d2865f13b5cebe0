"""What an encrypted queue keeps of a message: its body, result and workflow state, on their way to the store and back.

Whether something is encrypted is said beside it, not in the queue's definition: what was stored before a queue named a
key, or after it named another, is read as it was written.
"""

from __future__ import annotations

from dataclasses import replace

from millrace.engine.data_keys import DataKeys
from millrace.model.clock import Entropy
from millrace.model.encryption import Belonging, EncryptedContent, encrypt
from millrace.model.message import Body, Message, Result, WorkflowState


class Encryption:
    """Encrypts and decrypts for all queues of a process."""

    def __init__(self, data_keys: DataKeys, entropy: Entropy) -> None:
        self._data_keys = data_keys
        self._entropy = entropy

    def encrypt(self, key: str, content: bytes, belonging: Belonging) -> bytes:
        """The content under a KMS key: one call of KMS for many. Raises KeyUnavailable."""
        return encrypt(content, self._data_keys.to_encrypt(key, belonging), belonging, self._entropy)

    def decrypt(self, stored: bytes, belonging: Belonging) -> bytes:
        """The content. Raises KeyUnavailable; KeyLost or BodyLost where it can never be had again."""
        content = EncryptedContent.read(stored, belonging)
        return content.decrypt(self._data_keys.to_decrypt(content, belonging), belonging)

    def encrypt_body(self, key: str, body: Body, tenant: str, queue: str, message_id: str, nonce: str) -> Body:
        """A body, packed already, as it is stored. Packed alone it has no digest, which would tell what is in it."""
        belonging = Belonging("body", tenant, queue, message_id, nonce, _form(body))
        return replace(body, data=self.encrypt(key, body.data, belonging), encrypted=True)

    def decrypt_body(self, stored: bytes, message: Message) -> bytes:
        """A body as it was packed, from its item or its blob."""
        of = message
        return self.decrypt(stored, Belonging("body", of.tenant, of.queue, of.id, of.nonce, _form(of.body)))

    def encrypt_result(self, key: str, result: Result, tenant: str, queue: str) -> Result:
        belonging = _of_result(result, tenant, queue)
        return replace(result, snapshot=self.encrypt(key, result.snapshot, belonging), encrypted=True)

    def snapshot(self, result: Result, tenant: str, queue: str) -> bytes:
        """What a finished message gave."""
        if not result.encrypted:
            return result.snapshot
        return self.decrypt(result.snapshot, _of_result(result, tenant, queue))

    def encrypt_state(self, key: str, state: WorkflowState, tenant: str, queue: str, message_id: str) -> WorkflowState:
        belonging = _of_state(state, tenant, queue, message_id)
        return replace(state, content=self.encrypt(key, state.content, belonging), encrypted=True)

    def state(self, state: WorkflowState, tenant: str, queue: str, message_id: str) -> WorkflowState:
        """The workflow state as its consumer wrote it."""
        if not state.encrypted:
            return state
        content = self.decrypt(state.content, _of_state(state, tenant, queue, message_id))
        return replace(state, content=content, encrypted=False)


def _form(body: Body) -> str:
    """Its size and packing, which tell how to read what is encrypted."""
    return f"{body.size} {body.packing}"


def _of_result(result: Result, tenant: str, queue: str) -> Belonging:
    return Belonging("result", tenant, queue, result.id, result.nonce, str(result.version))


def _of_state(state: WorkflowState, tenant: str, queue: str, message_id: str) -> Belonging:
    return Belonging("state", tenant, queue, message_id, state.nonce, str(state.version))
