"""Markdown files with YAML front matter, read as if strangers wrote them.

    ---
    id: billing-17
    status: pending
    depends_on: [billing-3]
    ---
    What is to be done …

becomes `{"id": "billing-17", "status": "pending", "depends_on": ["billing-3"], "text": "What is to be done …"}`.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import yaml

FENCE = "---"
#: A work item's head is a screenful; more is a mistake or an attack.
MAX_HEAD = 64 * 1024


class Malformed(Exception):
    """The file is not markdown with front matter; says why."""


class _Loader(yaml.SafeLoader):
    """YAML's plain values, each written out: no alias, so that no short text can mean a huge one; no name twice."""

    def compose_node(self, parent: yaml.nodes.Node | None, index: Any) -> yaml.nodes.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            raise Malformed("the front matter uses a YAML alias")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.nodes.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: ARG002, FBT001, FBT002
        found = super().construct_mapping(node, deep=True)
        if len(found) != len(node.value):
            raise Malformed("the front matter has a name twice")
        if not all(isinstance(name, str) for name in found):
            raise Malformed("the front matter has a name that is no text: put it into quotes")
        return found


def read_markdown(data: bytes) -> dict[str, Any]:
    """The front matter's fields and the `text` below it, fit to be written as JSON. Raises Malformed."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Malformed("the file is not UTF-8") from None
    first, _, rest = text.replace("\r\n", "\n").partition("\n")
    if first.rstrip() != FENCE:
        raise Malformed(f"the file does not begin with {FENCE}")
    head, found, body = f"\n{rest}\n".partition(f"\n{FENCE}\n")
    if not found:
        raise Malformed(f"the front matter does not end with {FENCE}")
    if len(head) > MAX_HEAD:
        raise Malformed(f"the front matter is longer than {MAX_HEAD} characters")
    return {**_fields(head), "text": body.strip("\n")}


def _fields(head: str) -> dict[str, Any]:
    try:
        fields = yaml.load(head, _Loader)  # noqa: S506 (a safe loader, made stricter)
        fields = {} if fields is None else _plain(fields)
        json.dumps(fields, ensure_ascii=False).encode()  # half a character, a number of 100,000 digits
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise Malformed(
            f"the front matter is not YAML{where}: {getattr(error, 'problem', '') or 'malformed'}"
        ) from None
    except (RecursionError, ValueError):
        raise Malformed("the front matter holds a value that cannot be read") from None
    if not isinstance(fields, dict):
        raise Malformed("the front matter is no list of names and values")
    if "text" in fields:
        raise Malformed("the front matter has a field `text`, which is what stands below it")
    return fields


def _plain(value: Any) -> Any:
    """A value as JSON has it: times as text."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    raise Malformed(f"the front matter holds a value of a kind that JSON has not: {type(value).__name__}")
