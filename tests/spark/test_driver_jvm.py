"""Spark's private names stand in one module: what breaks with the next Spark, breaks there."""

from __future__ import annotations

import ast
from pathlib import Path

from infra.build.bulk_package import ROOT

#: PySpark's attributes that lead to its Java side.
PRIVATE = {"_jdf", "_jvm", "_jsc", "_jsparkSession", "_jconf", "_jc", "_jschema", "_jmap", "_jseq", "_jcols", "_sc"}
ALLOWED = "shared/millrace/spark/driver_jvm.py"


def private_names(path: Path) -> set[str]:
    found = ast.walk(ast.parse(path.read_text()))
    return {node.attr for node in found if isinstance(node, ast.Attribute)} & PRIVATE


def test_private_names_of_spark_stand_in_one_module() -> None:
    folders = ("shared/millrace/spark", "functions/bulk_enqueue")
    found = {
        str(path.relative_to(ROOT)): names
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if (names := private_names(path))
    }
    assert found == {ALLOWED: {"_jdf", "_jvm", "_jsc"}}
