"""Where the bundle is: here at the top of a checkout, in a wheel beside the library."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.app import bundle
from millrace.app.bundle import bundle_root, cache_folder, is_checkout, python_path, tool_folder

ROOT = Path(__file__).parents[2]


def test_in_a_checkout_the_bundle_is_its_top() -> None:
    assert is_checkout()
    assert bundle_root() == ROOT
    assert python_path() == [str(ROOT), str(ROOT / "shared")]
    assert tool_folder("sam", ROOT / "infra" / "locks" / "sam.txt") == ROOT / ".venv-sam"


def test_installed_tools_lie_in_the_cache_under_their_locks_hash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "site-packages" / "millrace"
    monkeypatch.setattr(bundle, "_PACKAGE", package)
    monkeypatch.setattr(bundle, "_CHECKOUT", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lock = tmp_path / "sam.txt"
    lock.write_text("sam==1")
    assert not is_checkout()
    assert bundle_root() == package / "bundle"
    assert python_path() == [str(package / "bundle"), str(package.parent)]
    assert cache_folder() == tmp_path / "cache" / "millrace"
    first = tool_folder("sam", lock)
    assert first.parent == cache_folder()
    lock.write_text("sam==2")
    assert tool_folder("sam", lock) != first
