"""Short ways to write and compile definitions in tests."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings

from millrace.definitions import Definitions, Expression, load
from millrace.definitions.expression import read_expression
from millrace.definitions.language.compiler import Compilation, compile_files
from millrace.definitions.language.lowering import lower
from millrace.definitions.language.parser import decode, parse
from millrace.definitions.language.source import Diagnostics
from millrace.definitions.message_type import RecordType


def fuzz(examples: int) -> settings:
    """Property tests that are the same in every run and not judged by the machine's mood."""
    return settings(max_examples=examples, deadline=None, derandomize=True)


MESSAGE = "message_type { payload: json  headers: map<string, string>  source_ip: string  received_at: time }"
QUIET = "fed_by: api  drained_by: api"


def compile_text(text: str, path: str = "test.millrace") -> Compilation:
    return compile_files([(path, text.encode())])


def queue_text(body: str, *, message: str = MESSAGE, name: str = "Jobs") -> str:
    return f"app Test {{ queue {name} {{ {message} {QUIET} {body} }} }}"


def loaded(text: str) -> Definitions:
    """Definitions that must compile without a finding, through their JSON."""
    compilation = compile_text(text)
    assert not compilation.findings, "\n".join(map(str, compilation.findings))
    return load(compilation.text.encode())


def messages(text: str) -> list[str]:
    return [f"{found.message} | {found.hint}" for found in compile_text(text).findings]


def only_message(text: str) -> str:
    found = messages(text)
    assert len(found) == 1, found
    return found[0]


def written_expression(text: str, message: str = MESSAGE) -> dict[str, Any]:
    """What the compiler writes for an expression, as a field of a mapping."""
    compilation = compile_text(queue_text(f"map_to: command A.B {{ value: {text} }}", message=message))
    assert compilation.definitions is not None, "\n".join(map(str, compilation.findings))
    written: dict[str, Any] = compilation.definitions["queues"]["Jobs"]["targets"][0]["input"]["value"]
    return written


def expression(text: str, message: str = MESSAGE) -> Expression:
    definitions = loaded(queue_text(f"map_to: command A.B {{ value: {text} }}", message=message))
    mapped = definitions.queue("Jobs").targets[0].input
    assert mapped is not None
    return mapped["value"]


def lowered(text: str, message_type: RecordType) -> Expression | None:
    """An expression compiled against a type, without the detour over a whole file; None where it is refused."""
    report = Diagnostics()
    source = f"app T {{ queue Q {{ x: {text} }} }}"
    parsed = parse(decode("test.millrace", source.encode(), report), report)
    if report.findings:
        return None
    member: Any = parsed.file.blocks[0].members[0]
    written = lower(parsed, member.members[0].value, message_type, report, "x")
    return None if report.findings else read_expression(json.loads(json.dumps(written)), message_type)
