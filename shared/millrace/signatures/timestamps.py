"""The times that providers sign: how they are written, and how old one may be."""

from __future__ import annotations

import re

from millrace.signatures.errors import RefusalReason, SignatureInvalid
from millrace.signatures.scheme import Scheme, TimestampFormat

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,18}))?(Z|[+-]\d\d:\d\d)", re.ASCII)


def clock_reading(clock: TimestampFormat, text: str) -> int:
    """A timestamp in milliseconds; digits that int() would also take from other scripts are refused."""
    if clock is TimestampFormat.RFC3339:
        return _rfc3339(text)
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise SignatureInvalid(RefusalReason.MALFORMED)
    return int(text) * (1000 if clock is TimestampFormat.SECONDS else 1)


def _rfc3339(text: str) -> int:
    from datetime import datetime

    shape = _RFC3339.fullmatch(text)
    if shape is None:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    whole, digits, zone = shape.groups()
    try:
        # Nanoseconds are cut to the microseconds that datetime reads.
        read = datetime.fromisoformat(f"{whole}.{digits or '0':0<6.6}{'+00:00' if zone == 'Z' else zone}")
    except ValueError:
        raise SignatureInvalid(RefusalReason.MALFORMED) from None
    return int(read.timestamp() * 1000)


def demand_near(scheme: Scheme, signed_at_ms: int, now_ms: int) -> None:
    """Too old could be a replay; too new would be one that can be replayed for longer."""
    oldest, newest = now_ms - (scheme.tolerance_seconds or 0) * 1000, now_ms + scheme.ahead_seconds * 1000
    if not oldest <= signed_at_ms <= newest:
        raise SignatureInvalid(RefusalReason.TIMESTAMP_OUTSIDE_TOLERANCE)
