"""A message's workflow state: its consumer's own bytes, readable and writable only under a live claim."""

from __future__ import annotations

from millrace.engine.finish import stale
from millrace.engine.queue import Queue
from millrace.model.errors import InvalidField, StaleClaim, StaleState
from millrace.model.message import Entry, Records, WorkflowState
from millrace.stores.interface import Applied, Refused

MAX_STATE_BYTES = 64 * 1024


def read_workflow_state(queue: Queue, entry: Entry) -> WorkflowState:
    """The state under a claim; version 0 and empty when none was written.

    Raises StaleClaim; of an encrypted one KeyUnavailable, and BodyLost where nobody can read it any more.
    """
    current = queue.store.get_entry(entry.place)
    if current is None or current.token != entry.token or not current.live(queue.now()):
        raise StaleClaim(entry.id, entry.version, current.version if current else None)
    return decrypted(queue, entry.id, own_workflow_state(queue.store.get_records(entry.id), entry.nonce))


def own_workflow_state(records: Records, nonce: str) -> WorkflowState:
    """The state of the message with this nonce: one sent again after its window begins with an empty one."""
    workflow_state = records.workflow_state
    return workflow_state if workflow_state and workflow_state.nonce == nonce else WorkflowState(b"", 0)


def decrypted(queue: Queue, message_id: str, workflow_state: WorkflowState) -> WorkflowState:
    """The state as its consumer wrote it. Raises KeyUnavailable, BodyLost."""
    return queue.runtime.encryption.state(workflow_state, queue.tenant, queue.spec.name, message_id)


def write_workflow_state(queue: Queue, entry: Entry, content: bytes, version: int) -> WorkflowState:
    """Replace the state read at `version`, while the claim is live: one transaction, four write units and up.

    Raises StaleClaim, StaleState or KeyUnavailable; then nothing was written.
    """
    if len(content) > MAX_STATE_BYTES:
        raise InvalidField("state", f"{len(content)} bytes", f"at most {MAX_STATE_BYTES} bytes")
    workflow_state = WorkflowState(content, version + 1, queue.spec.location_ttl(entry.enqueued_at), entry.nonce)
    stored = workflow_state
    if queue.key:
        encrypt = queue.runtime.encryption.encrypt_state
        stored = encrypt(queue.key, workflow_state, queue.tenant, queue.spec.name, entry.id)
    outcome = queue.store.put_workflow_state(entry, stored, queue.now())
    if isinstance(outcome, Applied):
        return workflow_state
    if isinstance(outcome, Refused):
        if outcome.current is None:
            raise stale(queue, entry)
        if _is_written(queue, entry, workflow_state, outcome.current):
            return workflow_state
        raise StaleState(entry.id, version, outcome.current.version)
    raise outcome.cause


def _is_written(queue: Queue, entry: Entry, wanted: WorkflowState, current: WorkflowState) -> bool:
    """Whether an earlier try without an answer wrote it: a store cannot tell, since no encryption equals another."""
    if not current.encrypted or current.version != wanted.version:
        return False
    return decrypted(queue, entry.id, current) == wanted
