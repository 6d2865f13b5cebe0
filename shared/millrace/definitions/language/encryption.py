"""Checks `encrypt: "alias/…"`: the KMS key of what a queue keeps of its messages."""

from __future__ import annotations

import re

from millrace.definitions.language.settings import BlockReader
from millrace.definitions.language.source import Code, did_you_mean
from millrace.model.queue_spec import TENANT_MARK

_WORD = r"[A-Za-z0-9/_-]+"
_ALIAS = re.compile(rf"alias/{_WORD}")
_KEY_ID = r"(?:mrk-)?[0-9a-f-]{32,36}"
_ARN = re.compile(rf"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{{12}}:(?:key/{_KEY_ID}|alias/{_WORD})")
_MARKS = re.compile(r"\{[^}]*\}?|\}")
#: KMS takes no longer alias; the longest tenant stands in it for its mark.
LONGEST, LONGEST_TENANT = 256, 48
_HINT = f'write "alias/name", "alias/name-{TENANT_MARK}" for a key of each tenant, or the ARN of a key or an alias'


def encryption_key(settings: BlockReader) -> str | None:
    """The key as it is written, with the tenant's mark in it; None where there is none, or it was reported."""
    written = settings.text("encrypt", LONGEST)
    if written is None:
        return None
    problem, hint = _wrong(written)
    if problem:
        settings.error(settings.span_of("encrypt"), Code.RANGE, problem, hint)
        return None
    return written


def _wrong(written: str) -> tuple[str, str]:
    """What is wrong with it, and what to write; two empty texts where nothing is."""
    for mark in _MARKS.findall(written):
        if mark != TENANT_MARK:
            hint = did_you_mean(mark, (TENANT_MARK,), f"only {TENANT_MARK} may stand there")
            return f"`encrypt` knows no {mark}", hint
    named = written.replace(TENANT_MARK, "t" * LONGEST_TENANT)
    if len(named) > LONGEST:
        return f"`encrypt` is longer than {LONGEST} characters with the longest tenant in it", "choose a shorter alias"
    if re.fullmatch(_KEY_ID, written):
        return "`encrypt` is the id of a key, which names it in one account only", _HINT
    if not (_ALIAS.fullmatch(named) or _ARN.fullmatch(named)):
        return "`encrypt` names no KMS key", did_you_mean(written.partition("/")[0], ("alias",), _HINT)
    if named.rpartition(":")[2].startswith("alias/aws/"):
        return "`encrypt` names a key of AWS's own, which encrypts for AWS's services only", "make a key of your own"
    return "", ""
