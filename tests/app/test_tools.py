"""Tools in environments of their own: made once, found again, named where they cannot be made."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from millrace.app import bundle
from millrace.app.tools import ToolMissing, ensure_environment, find_uv

UV = """#!/bin/sh
echo "$@" >> {log}
case "$1" in venv) for last; do :; done; mkdir -p "$last/bin";; esac
exit {code}
"""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A library installed from a wheel, with one lock."""
    monkeypatch.setattr(bundle, "_PACKAGE", tmp_path / "lib" / "millrace")
    monkeypatch.setattr(bundle, "_CHECKOUT", tmp_path / "none")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    locks = bundle.bundle_root() / "infra" / "locks"
    locks.mkdir(parents=True)
    (locks / "sam.txt").write_text("x==1\n")
    return tmp_path


def fake_uv(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> Path:
    program, log = folder / "uv", folder / "uv.log"
    program.write_text(UV.format(log=log, code=code))
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("UV", str(program))
    return log


def test_an_environment_is_made_once(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_uv(installed, monkeypatch)
    first = ensure_environment("sam")
    assert ensure_environment("sam") == first
    assert first.is_relative_to(installed / "cache" / "millrace")
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["venv", "pip"]
    assert "--require-hashes" in log.read_text()


def test_one_that_cannot_be_made_is_named_and_tried_again(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_uv(installed, monkeypatch, code=1)
    for _ in range(2):
        with pytest.raises(ToolMissing, match="sam could not be installed"):
            ensure_environment("sam")
    assert len(log.read_text().splitlines()) == 2


def test_uv_is_found_beside_python_and_missed_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("UV", raising=False)
    assert os.access(find_uv(), os.X_OK)
    monkeypatch.setattr("millrace.app.tools.shutil.which", lambda *_args, **_names: None)
    with pytest.raises(ToolMissing, match="pip install uv"):
        find_uv()
