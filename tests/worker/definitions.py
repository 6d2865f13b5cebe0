"""Definitions for a test, compiled from the language as a deployment's are."""

from __future__ import annotations

import json

from millrace.definitions import Definitions, load
from millrace.definitions.language.compiler import compile_files


def compiled(queues: str) -> Definitions:
    outcome = compile_files([("test.millrace", f"app Test {{ {queues} }}".encode())])
    assert not outcome.errors, [str(error) for error in outcome.errors]
    return load(json.dumps(outcome.definitions).encode())


TYPE = "message_type { n: int  name?: string }"
