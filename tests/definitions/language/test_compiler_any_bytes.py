"""Whatever the bytes are, the compiler gives definitions or a clean list of errors."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from millrace.definitions import load
from millrace.definitions.language.compiler import Compilation, compile_files
from millrace.definitions.language.formatter import format_source
from millrace.definitions.language.grammar import TOKEN_NAMES
from millrace.definitions.language.parser import decode, parse
from millrace.definitions.language.source import MAX_ERRORS, MAX_SOURCE_BYTES, Diagnostics
from tests.definitions.writing import fuzz

SHIPPED = [path.read_bytes() for path in sorted(Path("infra/example/queues").glob("*.millrace"))]

fragments = st.sampled_from(
    ["app", "queue", "webhook", "Jobs", "message_type", "map_to", "command", "A.B", "{", "}", "{}", ":", ",", "(", ")",
     "<", ">", "[", "]", "?", '"text"', "'", '"', "1", "-1", "0.5", "1u", "99999999999999999999", "json", "list", "map",
     "enum", "payload", ".", "==", "&&", "!", "-", "// note\n", "\n", "ordering", "per_key", "retention", "max_depth",
     "secret", "provider", "github", "verify_hmac", "header", "null", "in", "\\", "\x00", "é", "\u2028", "=", "#", ";",
     'b"\\xff"', 'r"\\"', '"\\ud800"', "labels", "priority", "idempotency", "key", "filter", "has", "true"]
)  # fmt: skip


def check(compilation: Compilation) -> None:
    assert (compilation.definitions is None) == bool(compilation.errors)
    assert len(compilation.findings) <= MAX_ERRORS
    for found in compilation.findings:
        path, line, column = found.place
        lines = str(found).split("\n")
        assert lines[0].startswith(f"{path}:{line}:{column}: {found.severity}: ")
        assert "^" in lines[2]
        assert "Token(" not in lines[0]
        assert not any(f" {name}" in lines[0] for name in TOKEN_NAMES if name.isupper() and len(name) > 3)
    if compilation.definitions is not None:
        definitions = load(compilation.text.encode())
        for name in definitions.queues:
            assert definitions.queue(name).spec.name == name
        for name in definitions.webhooks:
            definitions.webhook(name)


@fuzz(150)
@given(st.binary(max_size=200))
@example(b"\xff\xfe")
@example(b"\xef\xbb\xbfapp A {}")
@example(b"app A { queue Q { message_type { a: json } x: " + b"(" * 3000)
@example(b"app A { queue Q { message_type { a: " + b"list<" * 3000 + b"int" + b">" * 3000)
@example(b"app A { queue Q { message_type { a: " + b"{ b: " * 3000)
@example(b"{" * 5000)
@example(b"}" * 5000)
@example(b"a {" * 2000)
@example(b'app A { webhook W { secret "x')
@example(b"//")
@example(b"x" * (MAX_SOURCE_BYTES + 1))
def test_any_bytes_compile_or_give_errors(data: bytes) -> None:
    check(compile_files([("any.millrace", data)]))


@fuzz(200)
@given(st.lists(fragments, max_size=40), st.booleans())
def test_any_words_of_the_language_compile_or_give_errors(parts: list[str], wrapped: bool) -> None:
    text = " ".join(parts)
    if wrapped:
        text = f"app A {{ queue Jobs {{ message_type {{ payload: json }} {text} }} }}"
    check(compile_files([("any.millrace", text.encode())]))


@fuzz(60)
@given(st.sampled_from(SHIPPED), st.data())
def test_damaged_definitions_compile_or_give_errors(source: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, min(len(source), start + 60)))
    inserted = data.draw(st.sampled_from([b"", b"}", b"{", b'"', b":", b"x", b",", b"\xff", b"// ", b"("]))
    damaged = source[:start] + inserted + source[end:]
    check(compile_files([("damaged.millrace", damaged)]))
    report = Diagnostics()
    parsed = parse(decode("damaged.millrace", damaged, report), report)
    if not report.findings:
        format_source(parsed)
