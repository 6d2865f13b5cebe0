"""What a refusal says."""

from __future__ import annotations

import pytest

from millrace.signatures import SignatureInvalid, verify
from tests.signatures.cases import (
    NOW,
    SCHEMES,
    changed,
    delivery,
    secret_of,
)


def test_refusal_tells_the_sender_nothing() -> None:
    told = set()
    for scheme in SCHEMES.values():
        for request in (delivery(scheme), changed(delivery(scheme), headers=[])):
            with pytest.raises(SignatureInvalid) as refused:
                verify(scheme, changed(request, body=b"{}"), [secret_of(scheme)], NOW)
            told.add((str(refused.value), refused.value.code, repr(refused.value.args)))
    assert len(told) == 1
