"""The ingress's lines on standard output: logs and metrics as Powertools writes them, byte for byte.

Written out here because importing Powertools costs a cold start more than reading the definitions, verifying a
signature and the client of the table together. A test holds each line to Powertools' own.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Mapping

#: What every record has; the rest of its attributes are the line's own fields.
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime"}


class JsonLines(logging.Formatter):
    """One JSON object a line: level, place, message, time, service, the line's own fields, what was raised."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "level": record.levelname,
            "location": f"{record.funcName}:{record.lineno}",
            "message": record.getMessage(),
            "timestamp": self.formatTime(record),
            "service": self._service,
            **{name: value for name, value in vars(record).items() if name not in _STANDARD},
            **self._raised(record),
        }
        trace = os.environ.get("_X_AMZN_TRACE_ID", "")
        if trace:
            line["xray_trace_id"] = trace.partition(";")[0].replace("Root=", "")
        return _compact(line)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 (logging's name)
        at = time.localtime(record.created)
        return time.strftime(datefmt or f"%Y-%m-%d %H:%M:%S,{int(record.msecs):03}%z", at)

    def _raised(self, record: logging.LogRecord) -> dict[str, object]:
        if not record.exc_info or record.exc_info[0] is None:
            return {}
        kind, error, trace = record.exc_info
        frames = [
            {"file": frame.filename, "line": frame.lineno, "function": frame.name, "statement": frame.line}
            for frame in traceback.extract_tb(trace)
        ]
        notes = getattr(error, "__notes__", None)
        return {
            "exception": self.formatException(record.exc_info),
            "exception_name": kind.__name__,
            **({"exception_notes": notes} if notes else {}),
            "stack_trace": {"type": kind.__name__, "value": error, "module": kind.__module__, "frames": frames},
        }


def json_logger(service: str) -> logging.Logger:
    """A logger that writes such lines, from the level that POWERTOOLS_LOG_LEVEL names."""
    logger = logging.getLogger(service)
    logger.setLevel((os.environ.get("POWERTOOLS_LOG_LEVEL") or "INFO").upper())
    logger.propagate = False  # Lambda's own handler, at the root, would write everything once more
    if not logger.handlers:
        output = logging.StreamHandler(sys.stdout)
        output.setFormatter(JsonLines(service))
        logger.addHandler(output)
    return logger


def count_line(namespace: str, name: str, dimensions: Mapping[str, str], now: int) -> str:
    """One occurrence of a metric in CloudWatch's embedded format."""
    described = {
        "Namespace": namespace,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name, "Unit": "Count"}],
    }
    return _compact({"_aws": {"Timestamp": now, "CloudWatchMetrics": [described]}, **dimensions, name: [1.0]})


def _compact(line: Mapping[str, object]) -> str:
    return json.dumps(line, default=str, separators=(",", ":"), ensure_ascii=False)
