"""Headers that a definition reads and that no signature covers: whoever carries a delivery can change them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from millrace.definitions.expression import Expression
from millrace.definitions.model import QueueDefinition
from millrace.signatures.scheme import Scheme

#: Stands for all headers at once, where an expression reads them as a whole.
EVERY = "(all)"


def headers_read(written: Mapping[str, Any] | Expression | None) -> frozenset[str]:
    """The headers that a compiled expression looks at."""
    if written is None:
        return frozenset()
    if isinstance(written, Expression):
        written = {"form": written.form} if written.form is not None else {"uses": written.uses}
    paths = _form_paths(written["form"]) if "form" in written else written["uses"]
    return frozenset(str(path[1]) if len(path) > 1 else EVERY for path in paths if path[0] == "headers")


def _form_paths(form: Any) -> Iterator[list[Any]]:
    if isinstance(form, Mapping):
        for operation, operands in form.items():
            if operation in ("path", "has"):
                yield operands
            elif operation != "literal":
                yield from _form_paths(operands)
    elif isinstance(form, list):
        for operand in form:
            yield from _form_paths(operand)


def readers(compiled: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What of a compiled queue reads a message, by the name of its setting."""
    for name in ("filter", "key", "idempotency_key"):
        yield name, compiled[name]
    for target in compiled["targets"]:
        yield from (target["input"] or {}).items()


def readers_of(queue: QueueDefinition) -> Iterator[tuple[str, Expression | None]]:
    """The same of a loaded one."""
    yield from (("filter", queue.filter), ("key", queue.key), ("idempotency_key", queue.idempotency_key))
    for target in queue.targets:
        yield from (target.input or {}).items()


def unsigned_headers(scheme: Scheme, found: Iterator[tuple[str, Any]]) -> dict[str, list[str]]:
    """Each header that the scheme does not sign, with the settings that read it.

    None where the proof does not depend on the delivery: whoever could change a header could then send anything.
    """
    unsigned: dict[str, list[str]] = {}
    if scheme.bearer:
        return unsigned
    for setting, written in found:
        for header in sorted(headers_read(written) - scheme.signed_headers):
            unsigned.setdefault(header, []).append(setting)
    return unsigned
