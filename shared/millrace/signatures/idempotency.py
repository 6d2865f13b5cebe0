"""The name under which a repeated delivery is recognised, where a definition gives none of its own."""

from __future__ import annotations

import hashlib

from millrace.signatures.request import WebhookRequest
from millrace.signatures.scheme import Scheme
from millrace.signatures.verification import Verified


def idempotency_key(scheme: Scheme, request: WebhookRequest, verified: Verified) -> str:
    """One key for one delivery, the same on every repeat of it.

    - A signed delivery id is the key: nobody but the provider can choose it.
    - An unsigned id counts only together with the body's SHA-256. Alone, a captured body sent under the id of a
      later delivery would make that one look like a repeat, and lose it.
    - Without an id the body's SHA-256 is the key.

    The scheme's name leads, so that two providers of one queue cannot meet in a key.
    """
    if verified.delivery_id is not None and verified.delivery_id_signed:
        return f"{scheme.name}:id:{verified.delivery_id}"
    content = hashlib.sha256(request.body).hexdigest()
    if verified.delivery_id is not None:
        return f"{scheme.name}:id:{verified.delivery_id}:sha256:{content}"
    return f"{scheme.name}:sha256:{content}"
