"""Which functions an expression may call, and with what."""

from __future__ import annotations

import pytest

from millrace.definitions.language.functions import CALLABLE, FUNCTIONS, RESERVED, fits, kind_of, usage
from millrace.definitions.message_type import INT, JSON, STRING, EnumType, ListType, MapType, Type


@pytest.mark.parametrize(
    ("type_", "kind"),
    [(INT, "int"), (EnumType(("a",)), "string"), (ListType(INT), "list"), (MapType(STRING, INT), "map")],
)
def test_every_type_has_a_kind(type_: Type, kind: str) -> None:
    assert kind_of(type_) == kind


def test_a_signature_fits_by_receiver_number_and_kinds() -> None:
    (starts_with,) = FUNCTIONS["startsWith"]
    assert fits(starts_with, STRING, (STRING,))
    assert fits(starts_with, JSON, (JSON,))
    assert not fits(starts_with, None, (STRING,))
    assert not fits(starts_with, STRING, ())
    assert not fits(starts_with, STRING, (INT,))


def test_usage_shows_each_way_to_call() -> None:
    assert usage("size") == "size(string/bytes/list/map) or string/bytes/list/map.size()"


def test_no_function_has_a_reserved_name() -> None:
    assert not RESERVED & set(CALLABLE)
