"""Bulk work from Spark: a DataFrame into a queue, a folder of work items, replays and comparisons by the million.

    enqueue     every row of a DataFrame becomes a message, once
    Report      what came of it, exactly
    read        messages, attempts, results, dead letters and audit events as DataFrames

Each name is imported when it is first used: what runs on an executor needs neither a session nor all of Spark.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millrace.spark.connection import TableConnection
    from millrace.spark.data.read import read
    from millrace.spark.frames import enqueue
    from millrace.spark.report import Report

_HOME = {"Report": "report", "TableConnection": "connection", "enqueue": "frames", "read": "data.read"}

__all__ = ["Report", "TableConnection", "enqueue", "read"]


def __getattr__(name: str) -> Any:
    """A public name, imported from its module when it is first asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'millrace.spark' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"millrace.spark.{_HOME[name]}"), name)


if "pyspark.sql" in sys.modules:
    from millrace.spark.registration import register_active

    register_active()
