"""`map_to`: where a message goes and what is made of it there."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from millrace.definitions.language import syntax
from millrace.definitions.language.lowering import lower
from millrace.definitions.language.secrets import read_secrets
from millrace.definitions.language.settings import BlockReader
from millrace.definitions.language.source import Code, did_you_mean
from millrace.definitions.language.syntax import Word
from millrace.definitions.message_type import RecordType
from millrace.definitions.model import TargetKind

_KINDS = tuple(kind.value for kind in TargetKind)
_COMMAND = re.compile(r"[A-Za-z]\w{0,63}\.[A-Za-z]\w{0,63}", re.ASCII)
_LAMBDA = re.compile(r"[A-Za-z0-9:_$-]{1,170}", re.ASCII)
MAX_MAPPED_FIELDS = 100


def compile_target(mapping: syntax.Mapping, message_type: RecordType, settings: BlockReader) -> dict[str, Any] | None:
    """The compiled target, or None where its kind or destination is wrong (then it was reported)."""
    kind = mapping.kind.text
    if kind not in _KINDS:
        hint = did_you_mean(kind, _KINDS)
        settings.error(mapping.kind.span, Code.UNKNOWN, f"there is no target `{kind}`", hint)
        return None
    name = _destination(kind, mapping.destination, settings)
    mapped = None if mapping.fields is None else _fields(mapping.fields, message_type, settings)
    secrets = _secrets(mapping, settings)
    return None if name is None else {"kind": kind, "name": name, "input": mapped, "secrets": secrets}


def _secrets(mapping: syntax.Mapping, settings: BlockReader) -> list[dict[str, Any]]:
    """What signs the calls of this target alone."""
    options = BlockReader(settings.parsed, settings.report, "map_to", mapping.options)
    found = read_secrets(options)
    if mapping.options and mapping.kind.text != TargetKind.HTTP:
        message = f"`{mapping.kind.text}` signs nothing: only `http` takes a secret"
        settings.error(mapping.options[0].span, Code.MISPLACED, message, "remove it")
    return found


def _fields(fields: tuple[syntax.Property, ...], message_type: RecordType, settings: BlockReader) -> dict[str, Any]:
    compiled: dict[str, Any] = {}
    for field in fields:
        name = field.name
        if name.text in compiled:
            settings.error(name.span, Code.DUPLICATE, f"`{name.text}` is mapped twice", "remove one of them")
        purpose = f"`{name.text}`"
        compiled[name.text] = lower(settings.parsed, field.value, message_type, settings.report, purpose)
    if len(compiled) > MAX_MAPPED_FIELDS:
        message = f"a mapping has at most {MAX_MAPPED_FIELDS} fields"
        settings.error(fields[MAX_MAPPED_FIELDS].span, Code.RANGE, message, "hand over a record")
    return compiled


def _destination(kind: str, written: object, settings: BlockReader) -> str | None:
    examples = {
        "command": "command Entity.Name { … }",
        "queue": "queue Name { … }",
        "http": 'http "https://example.com/path" { … }',
        "lambda": 'lambda "function-name" { … }',
    }
    hint = f"write `{examples[kind]}`"
    if isinstance(written, Word):
        span, text, quoted = written.span, written.text, False
    elif isinstance(written, syntax.Literal):
        span, text, quoted = written.span, str(written.value), True
    else:
        return None
    if quoted != (kind in ("http", "lambda")):
        settings.error(span, Code.TYPE, f"`{kind}` takes {'a name' if quoted else 'a string'}", hint)
        return None
    problem = _problem(kind, text)
    if problem:
        settings.error(span, Code.TYPE, problem, hint)
        return None
    return text


def _problem(kind: str, text: str) -> str:
    if kind == "command" and _COMMAND.fullmatch(text) is None:
        return "a command is named by its entity and its own name"
    if kind == "queue" and "." in text:
        return "a queue has a single name"
    if kind == "lambda" and _LAMBDA.fullmatch(text) is None:
        return "this is not the name of a Lambda function"
    if kind == "http":
        return _address_problem(text)
    return ""


def _address_problem(text: str) -> str:
    """A message must not travel in the clear; plain http is for this machine only."""
    try:
        address = urlsplit(text)
        host, _port = address.hostname, address.port
    except ValueError:
        return "this is not an address"
    if not host or not text.isprintable() or " " in text or address.username is not None:
        return "this is not an address"
    local = host in ("localhost", "127.0.0.1", "::1")
    if address.scheme != "https" and not (address.scheme == "http" and local):
        return "an address starts with https://"
    return ""
