"""One HTML page of a report: self-contained, without a script, and closed to whatever strangers wrote into messages.

Everything that comes from messages is escaped, and the page's own policy allows nothing but its style: a text that got
through in spite of that would have nothing to run with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from millrace.spark.page.charts import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    duration,
    flow_chart,
    latency_chart,
    plain,
    stacked_bars,
)
from millrace.spark.page.figures import ReportFigures, Row

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root{color-scheme:light}*{box-sizing:border-box}
body{margin:0;background:#f6f7f9;color:#1f2328;font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1040px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:26px;margin:0;letter-spacing:-.01em}h2{font-size:17px;margin:0 0 4px}table+h2{margin:22px 0 6px}
p{margin:0 0 14px;color:#57606a}header p{margin:4px 0 20px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(132px,1fr));gap:10px;margin-bottom:18px}
.tile,section{background:#fff;border:1px solid #e3e6ea;border-radius:10px}
.tile{padding:12px 14px}.tile b{display:block;font-size:23px;font-weight:620;font-variant-numeric:tabular-nums}
.tile span{color:#57606a;font-size:13px}.bad b{color:#b83c00}.good b{color:#00775a}
section{padding:18px 20px 14px;margin-bottom:16px}
svg{display:block;width:100%;height:auto}svg text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
table{border-collapse:collapse;width:100%;margin-top:12px;font-size:13.5px}
th{text-align:left;color:#57606a;font-weight:550;border-bottom:1px solid #d8dce1;padding:5px 10px 5px 0}
td{border-bottom:1px solid #eef0f2;padding:5px 10px 5px 0;vertical-align:top;overflow-wrap:anywhere}
.n{text-align:right;padding-right:18px;font-variant-numeric:tabular-nums;white-space:nowrap}code{font-size:12.5px}
.none{color:#57606a;margin:8px 0 6px}footer{color:#57606a;font-size:13px}
@media print{body{background:#fff}section{break-inside:avoid}}
"""


def render_page(figures: ReportFigures) -> str:
    """The whole page."""
    title = escape(figures.title)
    span = f"{_moment(figures.first_at)} to {_moment(figures.last_at)} UTC" if figures.first_at else "no messages"
    sections = (_flow, _latency, _failures, _retries, _copies, _breaches)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main><header><h1>{title}</h1><p>{span}</p></header>{_tiles(figures)}"
        f"{''.join(section(figures) for section in sections)}"
        f"<footer>{_footer(figures)}</footer></main></body></html>\n"
    )


def _tiles(figures: ReportFigures) -> str:
    totals = figures.totals
    late = sum(row["messages"] for row in figures.breaches)
    shown = (
        ("messages", totals.get("messages", 0), ""),
        ("done", totals.get("done", 0), "good"),
        ("dead", totals.get("dead", 0), "bad" if totals.get("dead") else ""),
        ("still open", totals.get("open", 0), ""),
        ("failed runs", totals.get("failed_runs", 0), ""),
        (f"past {duration(figures.sla_s)}", late, "bad" if late else ""),
        ("write units", totals.get("write_units", 0), ""),
    )
    tiles = (
        f'<div class="tile {kind}"><b>{count:,.0f}</b><span>{escape(name)}</span></div>' for name, count, kind in shown
    )
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _section(title: str, text: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{body}</section>"


def _none(text: str) -> str:
    return f'<div class="none">{escape(text)}</div>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> str:
    """Every cell escaped; `numbers` are columns to the right."""
    marks = ['class="n"' if place in numbers else "" for place in range(len(heads))]
    head = "".join(f"<th {mark}>{escape(name)}</th>" for name, mark in zip(heads, marks, strict=True))
    lines = (
        "".join(f"<td {mark}>{escape(_cell(value))}</td>" for value, mark in zip(row, marks, strict=True))
        for row in rows
    )
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"
    )


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:,.0f}"
    return plain(value, 200)


def _moment(at: object) -> str:
    return str(at)[:16] if at else "–"


def _flow(figures: ReportFigures) -> str:
    text = "Endings count at the time at which they are known to have happened."
    return _section("What came, what ended", text, flow_chart(figures) if figures.flow else _none("Nothing came."))


def _latency(figures: ReportFigures) -> str:
    text = "From arrival; the dot is the median, the mark what 99 of 100 stayed below. As far as times are known."
    if not any(row["done_p50"] is not None or row["start_p50"] is not None for row in figures.latency):
        return _section("How long it took", text, _none("No times are known: merge incremental exports for them."))
    body = latency_chart(figures.latency, lambda row: row["queue"])
    heads = ("queue", "messages", "known", "start p50", "start p99", "done p50", "done p99")
    rows = [
        (row["queue"], row["messages"], row["known"],
         *(duration(row[name]) for name in ("start_p50", "start_p99", "done_p50", "done_p99")))
        for row in figures.latency
    ]  # fmt: skip
    body += _table(heads, rows, (1, 2, 3, 4, 5, 6))
    slow = [row for row in figures.keys if row["done_p50"] is not None]
    if slow:
        body += "<h2>The slowest keys</h2>" + latency_chart(slow, lambda row: f"{row['queue']} · {row['key']}")
    return _section("How long it took", text, body)


def _failures(figures: ReportFigures) -> str:
    text = "Errors that are the same but for ids and numbers are one line, as the console groups them."
    if not figures.failures:
        return _section("What failed", text, _none("Nothing failed."))
    rows = figures.failures
    recovered = [row["messages"] - row["dead"] for row in rows]
    parts = [("dead", RED, [row["dead"] for row in rows]), ("not dead (yet)", ORANGE, recovered)]
    labels = [f"{row['error_type'] or 'error'} · {row['queue']}" for row in rows]
    heads = ("error", "last said", "messages", "dead", "failed runs", "first", "last")
    lines = [
        (row["error_type"], row["error"], row["messages"], row["dead"], row["runs"], _moment(row["first_at"]),
         _moment(row["last_at"]))
        for row in rows
    ]  # fmt: skip
    return _section("What failed", text, stacked_bars(labels, parts, "messages") + _table(heads, lines, (2, 3, 4)))


def _retries(figures: ReportFigures) -> str:
    again = [row for row in figures.retries if row["retries"]]
    units, all_units = (sum(row[name] for row in figures.retries) for name in ("retry_units", "write_units"))
    share = f"{units:,.0f} of {all_units:,.0f} write units ({units / all_units:.1%}) were retries." if all_units else ""
    if not again:
        return _section("Retries and what they cost", "No message was tried again.", _none("Nothing to show."))
    counts = sorted({row["retries"] for row in again})
    labels = [f"{count} retr{'y' if count == 1 else 'ies'}" for count in counts]
    queues = sorted({row["queue"] for row in again})
    colours = (BLUE, ORANGE, GREEN, RED, GREY)
    cost = {(row["queue"], row["retries"]): row["retry_units"] for row in again}
    parts = [
        (plain(queue), colours[place % len(colours)], [cost.get((queue, count), 0) for count in counts])
        for place, queue in enumerate(queues)
    ]
    return _section("Retries and what they cost", share, stacked_bars(labels, parts, "write units spent on retries"))


def _copies(figures: ReportFigures) -> str:
    text = (
        "Messages with a body that their queue had before, under another key. Repeats of a key are not stored at all."
    )
    if not figures.copies:
        return _section("Sent more than once, and by whom", text, _none("No body came twice."))
    labels = [f"{row['source'] or 'unnamed'} → {row['queue']}" for row in figures.copies]
    parts = [("copies", BLUE, [row["copies"] for row in figures.copies])]
    return _section("Sent more than once, and by whom", text, stacked_bars(labels, parts, "messages"))


_BREACHES = (("late", ORANGE), ("dead", RED), ("open", GREY))


def _breaches(figures: ReportFigures) -> str:
    title = f"Not done within {duration(figures.sla_s)}"
    text = "Done late, dead, or still open and overdue when last seen."
    if not figures.breaches:
        return _section(title, text, _none("Every message whose times are known was done in time."))
    queues = sorted({row["queue"] for row in figures.breaches})
    count = {(row["queue"], row["breach"]): row["messages"] for row in figures.breaches}
    parts = [(name, colour, [count.get((queue, name), 0) for queue in queues]) for name, colour in _BREACHES]
    heads = ("message", "queue", "key", "received", "", "after")
    worst = [_worst(row) for row in figures.worst]
    return _section(title, text, stacked_bars(queues, parts, "messages") + _table(heads, worst, (5,)))


def _worst(row: Row) -> tuple[object, ...]:
    return (
        row["message_id"],
        row["queue"],
        row["key"],
        _moment(row["received_at"]),
        row["breach"],
        duration(row["seconds"]),
    )


def _footer(figures: ReportFigures) -> str:
    unknown = figures.totals.get("unknown", 0)
    return (
        f"Of {unknown:,.0f} messages the ending is not known." if unknown else "The ending of every message is known."
    )
