"""Patterns of `matches`: what the engine takes, and what it takes quickly.

The engine compiles a pattern at every call. Matching is linear in the text, but compiling is not linear in the
pattern: `\\w` stands for 140,000 characters (2 ms), and a counted repetition multiplies what it repeats.
"""

from __future__ import annotations

import math
import re

MAX_PATTERN = 200
MAX_REPETITIONS = 1_000
MAX_UNICODE_CLASSES = 10

_COUNTED = re.compile(r"\{(\d+)(?:,(\d*))?\}", re.ASCII)
_UNICODE_CLASS = re.compile(r"(?<!\\)(?:\\\\)*\\[wWpPbB]")


def pattern_problem(pattern: str, *, in_body: bool) -> str:
    """Why a pattern is refused; empty where it is fine. In the body of a comprehension it must be cheap."""
    from millrace.definitions.cel_engine import engine

    counts = [max(int(low[:6]), int((high or low)[:6])) for low, high in _COUNTED.findall(pattern)]
    repetitions = math.prod(max(1, count) for count in counts)
    classes = len(_UNICODE_CLASS.findall(pattern)) * repetitions
    if len(pattern) > MAX_PATTERN:
        return f"the pattern has more than {MAX_PATTERN} characters"
    if repetitions > (MAX_REPETITIONS // 10 if in_body else MAX_REPETITIONS):
        return "the pattern repeats too much"
    if classes > (0 if in_body else MAX_UNICODE_CLASSES):
        return "the pattern has too many classes of all the world's letters; write [0-9A-Za-z_]"
    try:
        engine().compile('"".matches(pattern)').execute({"pattern": pattern})
    except (RuntimeError, ValueError):
        return "the pattern is not a regular expression of RE2"
    return ""
