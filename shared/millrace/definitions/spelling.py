"""How the types that JSON lacks are spelt in a message: times, durations, bytes.

A time is RFC 3339 with an offset, a duration is a CEL duration such as `1h30m` or `1.5s`, bytes are base64.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta

INT_MIN, INT_MAX = -(2**63), 2**63 - 1

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION = re.compile(r"[+-]?(\d{1,18}(\.\d{1,9})?(ns|us|ms|h|m|s))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|h|m|s)", re.ASCII)
_MICROSECONDS = {"h": 3_600e6, "m": 60e6, "s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}


def parse_time(text: str) -> datetime:
    """The instant that RFC 3339 text names; ValueError where it names none."""
    if len(text) > 40 or _TIME.fullmatch(text) is None:
        raise ValueError("not an RFC 3339 time with an offset")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("beyond the years 1 to 9999") from exc


def format_time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_duration(text: str) -> timedelta:
    """The length that text such as `1h30m` names; ValueError where it names none."""
    if len(text) > 64 or _DURATION.fullmatch(text) is None:
        raise ValueError("not a duration such as 90s or 1h30m")
    total = sum(float(amount) * _MICROSECONDS[unit] for amount, unit in _DURATION_PART.findall(text))
    try:
        return timedelta(microseconds=-total if text.startswith("-") else total)
    except OverflowError as exc:
        raise ValueError("longer than a duration can be") from exc


def format_duration(value: timedelta) -> str:
    whole, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return f"{'-' if value < timedelta(0) else ''}{whole}{fraction}s"


def parse_bytes(text: str) -> bytes:
    """The bytes that base64 text carries; ValueError where it is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ValueError("not base64") from exc


def format_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
