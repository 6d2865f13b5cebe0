"""The page holds everything itself, runs nothing, and shows strangers' texts as text."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from typing import Any

from millrace.spark.page.figures import ReportFigures
from millrace.spark.page.page import POLICY, render_page

AT = datetime.fromisoformat("2026-11-18 12:00:00")
HOSTILE = """"'><img src=x onerror=alert(1)><script>alert(2)</script></title></style>&amp;${7*7}"""


def hostile_figures() -> ReportFigures:
    """Every text that a stranger can choose is hostile."""
    times = {"start_p50": 0.1, "start_p99": 2.0, "done_p50": 1.0, "done_p99": 90.0}
    where = {"queue": HOSTILE, "key": HOSTILE, "messages": 3}
    return ReportFigures(
        HOSTILE, 300, 60, AT, AT,
        {"messages": 3, "done": 1, "dead": 1, "open": 1, "unknown": 1, "failed_runs": 2, "write_units": 30},
        [{"queue": HOSTILE, "at": AT, "arrived": 3, "done": 1, "dead": 1, "other": 0}],
        [where | times | {"known": 1, "key": None}],
        [where | times | {"known": 1}],
        [where | {"fingerprint": HOSTILE, "error_type": HOSTILE, "error": HOSTILE, "dead": 1, "runs": 4, "first_at": AT,
                  "last_at": AT}],
        [{"queue": HOSTILE, "retries": 1, "messages": 1, "write_units": 30, "retry_units": 6}],
        [{"queue": HOSTILE, "source": HOSTILE, "messages": 2, "copies": 1}],
        [{"queue": HOSTILE, "breach": "late", "messages": 1}],
        [where | {"message_id": HOSTILE, "received_at": AT, "breach": "late", "seconds": 301.0}],
    )  # fmt: skip


class Tags(HTMLParser):
    """All tags and attributes of a page, as a browser's parser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_nothing_of_a_message_becomes_markup() -> None:
    page = render_page(hostile_figures())
    tags = Tags(page).tags
    assert {tag for tag, _ in tags} & {"script", "img", "iframe", "object", "embed", "link", "base", "form"} == set()
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    assert page.count("&lt;script&gt;alert(2)") >= 8
    assert page.count("</title>") == 1
    assert page.count("</style>") == page.count("<style")


def test_nothing_comes_from_elsewhere_and_nothing_may_run() -> None:
    page = render_page(hostile_figures())
    policy = [a["content"] for tag, a in Tags(page).tags if tag == "meta" and "http-equiv" in a]
    assert policy == [POLICY]
    assert "script-src" not in POLICY
    assert POLICY.startswith("default-src 'none'")
    references = re.findall(r"""(?:href|src)\s*=\s*["']([^"']*)""", re.sub(r"xmlns[:a-z]*=\S+", "", page))
    assert all(reference.startswith("#") for reference in references), references
    assert not re.findall(r"url\((?!#)", page)


def test_a_page_of_nothing_says_so() -> None:
    page = render_page(ReportFigures("Empty", 300, 60, None, None))
    for text in ("Nothing came.", "Nothing failed.", "No times are known", "No body came twice."):
        assert text in page


def test_a_page_is_the_same_every_time() -> None:
    figures = replace(hostile_figures(), title="t")
    assert render_page(figures) == render_page(figures)
