"""Keys as the queue takes them. What every way into a queue answers is in test_one_rule.py."""

from __future__ import annotations

from hashlib import sha256

import pytest

from millrace.admission.admit import fit_key


@pytest.mark.parametrize("key", ["order-1", "a b", "é✓", "x" * 128, ""])
def test_a_key_that_fits_stays_as_it_is(key: str) -> None:
    assert fit_key(key, 128) == key


@pytest.mark.parametrize("key", ["x" * 129, "é" * 65, "a\nb", "\x1f", "\x7f", "\ud800"])
def test_a_long_or_odd_key_is_named_by_its_hash(key: str) -> None:
    assert fit_key(key, 128) == f"sha256:{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
