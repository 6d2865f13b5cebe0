"""The place of an upload says whose it is and what is in it."""

from __future__ import annotations

from millrace.model.message import Draft
from millrace.model.queue_spec import TENANT
from millrace.model.uploads import STAGE, upload_of


def test_every_owner_and_content_has_a_place_of_its_own() -> None:
    asked = [
        ("t", "Q", "a", b"1" * 32),
        ("t", "Q", "b", b"1" * 32),
        ("t", "R", "a", b"1" * 32),
        ("u", "Q", "a", b"1" * 32),
    ]
    places = {upload_of(*one, 5).place for one in [*asked, ("t", "Q", "a", b"2" * 32)]}
    assert len(places) == 5
    assert all(place.startswith(f"{STAGE}/") for place in places)


def test_no_tenants_bodies_lie_among_the_uploads() -> None:
    assert not TENANT.fullmatch(STAGE)


def test_a_draft_is_as_large_as_what_it_names() -> None:
    assert Draft(b"abc").size == 3
    assert Draft(b"", stored=upload_of("t", "Q", "a", b"1" * 32, 77)).size == 77
