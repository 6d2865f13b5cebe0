"""The tests mirror the library: the test of `shared/millrace/a/b.py` is `tests/a/test_b*.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LIBRARY = TESTS.parent / "shared" / "millrace"
MODULES = sorted(
    path.relative_to(LIBRARY).with_suffix("").as_posix()
    for path in LIBRARY.rglob("*.py")
    if path.stem not in ("__init__", "__main__")
)


def mirrors(module: str) -> list[Path]:
    folder, _, name = module.rpartition("/")
    return [*(TESTS / folder).glob(f"test_{name}.py"), *(TESTS / folder).glob(f"test_{name}_*.py")]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_a_test_of_its_name(module: str) -> None:
    assert mirrors(module), f"write tests/{module.rpartition('/')[0]}/test_{Path(module).name}.py"
