"""The ingress's lines, held to Powertools' own for the same call."""

from __future__ import annotations

import json
import logging
import sys
import threading
from types import SimpleNamespace

import pytest
from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from functions.ingress import report
from functions.ingress.lines import JsonLines, count_line, json_logger

FIELDS = {"action": "webhook_accepted", "webhook": "Zahlung-ü", "status": 202, "reason": 'a "quoted" one', "none": 0}


def raised() -> ValueError:
    try:
        raise ValueError("übel")
    except ValueError as error:
        error.add_note("with a note")
        return error


def record(level: int, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    made = logging.getLogger("twin").makeRecord(
        "twin", level, __file__, 7, "Was %s.", ("said",), info, "record", extra=FIELDS
    )
    made.created, made.msecs = 1_800_000_000.007_5, 7.5
    return made


@pytest.mark.parametrize("error", [None, raised(), KeyError()], ids=["plain", "with-notes", "never-raised"])
@pytest.mark.parametrize("trace", ["", "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"])
def test_a_log_line_is_powertools_own(error: BaseException | None, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", trace)
    theirs = Logger(service="twin").registered_formatter
    said = record(logging.ERROR if error else logging.INFO, error)
    assert JsonLines("twin").format(said) == theirs.format(said)


@pytest.mark.parametrize("dimensions", [{"webhook": "Hook"}, {"webhook": "none", "reason": "größe"}])
def test_a_metric_s_line_says_what_powertools_own_says(
    dimensions: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = EphemeralMetrics(namespace="Millrace/twin", service="ingress")
    for name, value in dimensions.items():
        metrics.add_dimension(name, value)
    metrics.add_metric("Accepted", MetricUnit.Count, 1)
    metrics.flush_metrics()
    theirs = json.loads(capsys.readouterr().out)

    now = theirs["_aws"]["Timestamp"]
    line = count_line("Millrace/twin", "Accepted", {**dimensions, "service": "ingress"}, now)
    assert list(json.loads(line).items()) == list(theirs.items())
    assert "\n" not in line


@pytest.mark.parametrize(("named", "level"), [("warning", logging.WARNING), ("", logging.INFO)])
def test_level_is_the_environment_s(named: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", named)
    logger = json_logger("twin-level")
    assert logger.level == level
    assert [output for output in logger.handlers if isinstance(output.formatter, JsonLines)]
    assert not logger.propagate, "Lambda's handler at the root would write each line again"


def test_calls_at_once_do_not_mix_their_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local gateway serves many calls in one process; one call's dimensions showed up in another's metrics."""
    written: list[str] = []
    output = SimpleNamespace(write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stdout", output)

    def count(number: int) -> None:
        served = SimpleNamespace(webhook=f"Hook{number}")
        for _ in range(50):
            report._count("Accepted", served, {"reason": str(number)})  # type: ignore[arg-type]

    threads = [threading.Thread(target=count, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [json.loads(line) for line in written]  # one write for each line: no other comes between
    assert len(lines) == 200
    assert all(line["webhook"] == f"Hook{line['reason']}" for line in lines)
