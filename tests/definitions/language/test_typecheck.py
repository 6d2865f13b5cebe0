"""Expressions against the message type, before anything is deployed."""

from __future__ import annotations

import pytest

from tests.definitions.writing import messages, queue_text

TYPED = """message_type {
  payload: json
  order: {
    id: string  total: float  count: int  urgency: enum("low", "high")
    lines: list<{ sku: string  price: int }>
  }
  headers: map<string, string>
  by_number: map<int, string>
  received_at: time
  wait: duration
  raw: bytes
  ok: bool
}"""


def findings(text: str) -> list[str]:
    return messages(queue_text(f"map_to: command A.B {{ value: {text} }}", message=TYPED))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ordr.id", "the message has no field `ordr` | did you mean `order`?"),
        ("order.idd", "there is no field `idd` | did you mean `id`?"),
        ('order["idd"]', "there is no field `idd`"),
        ("order.lines[0].prise", "did you mean `price`?"),
        ("order.lines.price", "list has no fields"),
        ('order.lines["a"]', "the index of a list must be int, this is string"),
        ("order.id.length", "string has no fields"),
        ("order.id.size", "for a call write `size(…)`"),
        ("headers[1]", "the key of this map must be string, this is int"),
        ('by_number["1"]', "the key of this map must be int, this is string"),
        ("by_number.one", "this map has int keys"),
        ("order.total[0]", "float cannot be indexed"),
        ('order.count == "5"', "int is never comparable with string"),
        ('order.urgency == "hihg"', 'this field is never "hihg" | did you mean `high`?'),
        ('order.urgency in ["low", "hi"]', 'this field is never "hi"'),
        ('received_at > "2026-01-01T00:00:00Z"', 'write timestamp("…") around the string'),
        ('wait == "5s"', 'write duration("…") around the string'),
        ('received_at > timestamp("yesterday")', "is not an RFC 3339 time"),
        ('wait > duration("5 minutes")', 'write duration("1h30m")'),
        ("order.id + 1", "write string(…) around it"),
        ("order.total + 1", "write double(…) around the int"),
        ("order.total % 2.0", "`%` does not take float"),
        ("-order.id", "the operand of `-` must be int or float, this is string"),
        ("!order.count", "the operand of `!` must be bool, this is int"),
        ("order.count ? 1 : 2", "the condition before `?` must be bool, this is int"),
        ("ok && order.id", "an operand of `&&` must be bool, this is string"),
        ("order < order", "map has no order"),
        ('"x" in order.id', "write `text.contains(part)`"),
        ("lenght(order.id)", "there is no function `lenght`"),
        ("startWith(order.id)", "did you mean `startsWith`?"),
        ("startsWith(order.id, 'x')", "write string.startsWith(string)"),
        ("order.count.startsWith('x')", "`startsWith` is not called like this"),
        ("size(order.count)", "`size` is not called like this"),
        ("has(order)", "`has` asks for a field | write has(payload.field)"),
        ("has(order.idd)", "did you mean `id`?"),
        ("order.lines.exists(line, line.prise > 1)", "did you mean `price`?"),
        ("order.lines.exists(ok, true)", "`ok` is taken"),
        ("order.lines.exists(line)", "write items.exists(item, …)"),
        ("order.lines.all(line, line.price)", "the body of `all` must be bool, this is int"),
        ("order.id.map(x, x)", "what `map` goes through must be list or map, this is string"),
        ("{order.count: 1}", "a key must be string, this is int"),
        ("9223372036854775808", "an int is at most 9223372036854775807"),
        ("-9223372036854775809", "an int is at"),
    ],
)
def test_what_can_never_work_is_an_error(text: str, says: str) -> None:
    found = findings(text)
    assert any(says in message for message in found), found


@pytest.mark.parametrize(
    "text",
    [
        "payload.whatever[3].is[\"there\"]",
        "payload.a + 1",
        "payload.a == order.id",
        "order.count == 5.0",
        "order.count > order.total",
        "order.id == null",
        'order.urgency == "high" ? order.id : "none"',
        "order.lines.filter(line, line.price > 5).map(line, line.sku)",
        "order.lines.exists(line, line.sku == order.id)",
        "headers.exists(name, headers[name] == order.id)",
        "by_number[5].startsWith('x')",
        'received_at - timestamp("2026-01-01T00:00:00Z") > wait',
        "wait.getSeconds() + received_at.getHours()",
        "string(order.count) + order.id + string(order.total)",
        "size(raw) + size(headers) + size(order.lines)",
        "raw == b'x' || raw + b'\\x00' == raw",
        "-9223372036854775808",
        '{"a": [order.id, {"b": ok}]}',
        "ok || !ok && (order.count > 1 == true)",
        "int(order.id) + int(payload.x)",
    ],
)  # fmt: skip
def test_what_can_work_is_accepted(text: str) -> None:
    assert findings(text) == []
