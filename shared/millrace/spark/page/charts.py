"""The report's plots, by matplotlib, as SVG that a page holds whole: no script, no font and no picture from elsewhere.

What strangers wrote is only ever text here: matplotlib escapes it, and is told not to take `$…$` for mathematics.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from millrace.spark.page.figures import ReportFigures, Row

#: Okabe and Ito's colours: told apart also by those who do not see red and green.
BLUE, GREEN, RED, ORANGE, GREY, SKY = "#0072B2", "#009E73", "#D55E00", "#E69F00", "#8A8F98", "#56B4E9"
_WIDTH = 9.6
_STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "millrace", "text.parse_math": False, "font.size": 9.5,
    "font.family": "sans-serif", "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#C4C8CE",
    "axes.grid": True, "grid.color": "#ECEEF1", "axes.axisbelow": True, "axes.labelcolor": "#57606A",
    "xtick.color": "#57606A", "ytick.color": "#24292F", "xtick.major.size": 0, "ytick.major.size": 0,
    "legend.frameon": False, "axes.titlesize": 10.5, "axes.titlelocation": "left",
}  # fmt: skip
_LABEL = 42
#: Times that an axis names (seconds).
_MARKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 30 * 86_400)
_FINE_MARKS = (*_MARKS, 0.002, 0.005, 0.02, 0.05, 0.2, 0.5, 2, 5, 20, 30, 120, 300, 1_800, 2 * 3_600, 2 * 86_400)


def plain(text: object, limit: int = _LABEL) -> str:
    """A stranger's text as a label: printable, on one line, and not long."""
    line = "".join(character if character.isprintable() else " " for character in str(text or "–"))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


@contextmanager
def _drawing(height: float, columns: int = 1) -> Iterator[tuple[Any, Any, io.StringIO]]:
    """A figure, its axes, and where its SVG is afterwards."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    out = io.StringIO()
    style: Any = _STYLE
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks: the reader's browser has them
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure, figure.subplots(1, columns), out
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})


def _svg(out: io.StringIO) -> str:
    """The picture itself, without the prologue of a file."""
    text = out.getvalue()
    return text[text.index("<svg") :]


def flow_chart(figures: ReportFigures) -> str:
    """How many came and how many ended, over time."""
    from matplotlib import dates

    steps: dict[Any, Row] = {}
    for row in figures.flow:
        at = steps.setdefault(row["at"], dict.fromkeys(("arrived", "done", "dead", "other"), 0))
        for name in at:
            at[name] += row[name]
    moments = sorted(steps)
    with _drawing(3.0) as (_, axes, out):
        axes.fill_between(moments, [steps[at]["arrived"] for at in moments], step="post", color=SKY, alpha=0.35, lw=0)
        for name, colour in (("arrived", BLUE), ("done", GREEN), ("dead", RED)):
            axes.step(moments, [steps[at][name] for at in moments], where="post", color=colour, lw=1.6, label=name)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        axes.set_ylabel(f"messages in {_length(figures.step_s)}")
        locator = dates.AutoDateLocator(minticks=4, maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.legend(ncols=3, loc="upper left", bbox_to_anchor=(0, 1.14))
    return _svg(out)


def latency_chart(rows: Sequence[Row], label: Callable[[Row], str]) -> str:
    """From p50 to p99, to the start and to the end; a row each, seconds on a scale of tens."""
    from matplotlib.ticker import FixedLocator, NullLocator

    shown = [row for row in rows if row["done_p50"] is not None or row["start_p50"] is not None]
    with _drawing(0.9 + 0.42 * max(1, len(shown))) as (_, axes, out):
        for place, row in enumerate(shown):
            for name, colour, shift in (("start", ORANGE, -0.16), ("done", GREEN, 0.16)):
                low, high = row[f"{name}_p50"], row[f"{name}_p99"]
                if low is None or high is None:
                    continue
                ends = max(low, 0.001), max(high, 0.001)
                axes.plot(ends, (place + shift,) * 2, color=colour, lw=3, alpha=0.45, solid_capstyle="round")
                axes.plot(ends[0], place + shift, "o", color=colour, ms=5)
                axes.plot(ends[1], place + shift, "|", color=colour, ms=9, mew=2)
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(FixedLocator(sorted(_FINE_MARKS if high < 200 * low else _MARKS)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda seconds, _: duration(seconds))
        axes.set_yticks(range(len(shown)), [plain(label(row)) for row in shown])
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        for name, colour in (("to its start", ORANGE), ("to done", GREEN)):
            axes.plot([], [], "o-", color=colour, lw=3, ms=5, label=f"{name}: p50 to p99")
        axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1.0))
    return _svg(out)


def stacked_bars(labels: Sequence[str], parts: Sequence[tuple[str, str, Sequence[float]]], unit: str) -> str:
    """Bars from left to right, a row for each label; parts are (name, colour, values)."""
    with _drawing(0.9 + 0.36 * max(1, len(labels))) as (_, axes, out):
        left = [0.0] * len(labels)
        for name, colour, values in parts:
            axes.barh(range(len(labels)), values, left=left, color=colour, height=0.62, label=name)
            left = [before + value for before, value in zip(left, values, strict=True)]
        for place, total in enumerate(left):
            axes.annotate(f" {total:,.0f}", (total, place), va="center", color="#57606A", fontsize=8.5)
        axes.set_yticks(range(len(labels)), [plain(label) for label in labels])
        axes.invert_yaxis()
        axes.margins(x=0.08)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(unit)
        if len(parts) > 1:
            axes.legend(ncols=len(parts), loc="lower left", bbox_to_anchor=(0, 1.0))
    return _svg(out)


def duration(seconds: float | None) -> str:
    """A time as people say it."""
    if seconds is None:
        return "–"
    for limit, unit, size in ((1, "ms", 0.001), (60, "s", 1), (3_600, "min", 60), (2 * 86_400, "h", 3_600)):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.3g} d"


def _length(seconds: int) -> str:
    names = {60: "a minute", 300: "5 minutes", 900: "15 minutes", 3_600: "an hour", 14_400: "4 hours", 86_400: "a day"}
    return names.get(seconds, "a week")
