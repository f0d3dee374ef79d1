"""A named cut as a value, and what is taken for a hole in what it copies."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given

from logstate.changelog.cuts.cut_copies import _has_wide_hole
from logstate.changelog.cuts.cut_value import CutValue, parse_cut
from logstate.changelog.cuts.named_cut import (
    NamedCut,
    StoreCopy,
    check_cut_name,
    is_copy,
    is_cut_name,
    parse_named_cut,
)
from logstate.changelog.cuts.named_cuts import parsed_cuts
from logstate.cli.stores.cut import _show
from logstate.contracts.errors import ConfigError, RestoreError
from logstate.contracts.records import FetchedRecord
from logstate.contracts.topic_names import (
    application_of_cuts_topic,
    cut_claim_topic,
    cut_copy_topic,
    is_changelog,
    is_of_named_cut,
    is_own_beside_the_plan,
    is_repartition,
    named_cuts_topic,
)
from logstate.testing.fake.fetched import StoredRecord
from tests.damaged import damaged_json

CUT = CutValue(
    {"shop-spend-changelog": {0: 42, 1: 0}},
    {"shop-spend-changelog": "id"},
    {"orders": {0: 7}},
    {"0_0": {"store:spend": 99}},
    1_000,
    {"shop-by-city-repartition": {0: 3}},
)
COPY = StoreCopy(
    {"name": "spend", "changelog_topic": "shop-spend-changelog"}, "t", "i", {0: 5, 1: 0}
)


def named(expires_at_ms: int | None) -> NamedCut:
    return NamedCut("v1", 2_000, expires_at_ms, CUT, {"spend": COPY})


def test_cuts_come_back_from_their_text_as_they_were() -> None:
    assert parse_cut(str(CUT)) == CUT
    assert parse_named_cut(named(None).to_json()) == named(None)
    assert parse_named_cut(named(3_000).to_json()) == named(3_000)


def test_the_cut_of_a_copy_has_its_offsets_and_the_clocks_of_then() -> None:
    cut = named(None).cut_of_copy("spend")

    assert (cut.positions, cut.topic_ids) == ({"t": {0: 5, 1: 0}}, {"t": "i"})
    assert (cut.clocks, cut.taken_at_ms) == (CUT.clocks, 1_000)


def test_a_cut_is_refused_from_its_horizon_on() -> None:
    assert named(3_000).copy_of("spend", now_ms=2_999) == COPY
    assert named(None).copy_of("spend", now_ms=10**15) == COPY
    with pytest.raises(RestoreError, match=r"was kept until 1970-01-01T00:00:03\.000Z"):
        named(3_000).copy_of("spend", now_ms=3_000)
    with pytest.raises(ConfigError, match=r"has no store 'visits'; it has \['spend'\]"):
        named(None).copy_of("visits", now_ms=0)


def test_a_cut_of_a_newer_version_is_refused() -> None:
    newer = {**json.loads(named(None).to_json()), "version": 2}

    with pytest.raises(RestoreError, match="a named cut of version 2"):
        parse_named_cut(json.dumps(newer))


@pytest.mark.parametrize("name", ["", "-x", "a.b", "a b", "latest", "x" * 81, '{"t": {"0": 1}}'])
def test_a_name_is_no_word_of_the_option_and_fits_into_a_topics(name: str) -> None:
    assert not is_cut_name(name)
    with pytest.raises(ConfigError, match="is not a valid name of a cut"):
        check_cut_name(name)


def test_topics_of_named_cuts_are_taken_for_no_others() -> None:
    copy, claim = (
        cut_copy_topic("shop", "v1-changelog", "x-changelog"),
        cut_claim_topic("shop", "v1"),
    )
    for topic in (named_cuts_topic("shop"), copy, claim):
        assert is_of_named_cut("shop", topic)
        assert not is_changelog("shop", topic)
        assert not is_repartition("shop", topic)
        assert is_own_beside_the_plan("shop", topic)
    assert not is_of_named_cut("shop", "shop-spend-changelog")
    assert application_of_cuts_topic(claim) is None


def records(*offsets: int) -> list[FetchedRecord]:
    return [StoredRecord("t", 0, offset, b"k", b"v", 0) for offset in offsets]


def test_one_missing_offset_is_a_mark_and_two_in_a_row_are_a_hole() -> None:
    assert not _has_wide_hole(5, records(5, 6, 7))
    assert not _has_wide_hole(5, records(6, 8, 9))
    assert _has_wide_hole(5, records(7, 8))
    assert _has_wide_hole(5, records(5, 8))


STORED = json.loads(
    NamedCut(
        "v1",
        2_000,
        3_000,
        CUT,
        {"spend": COPY._replace(topic=cut_copy_topic("shop", "v1", "spend"))},
    ).to_json()
)


@given(damaged_json(STORED))
def test_a_damaged_record_is_refused_or_can_be_used(value: bytes) -> None:
    (found, damaged) = parsed_cuts({b"v1": value}, "shop")
    assert found.keys() | damaged.keys() == {"v1"}
    for cut in found.values():
        assert parse_named_cut(cut.to_json(), "shop", "v1") == cut
        assert all(is_copy("shop", "v1", kept.topic) for kept in cut.stores.values())
        _show(cut, as_json=False)
        assert cut.records >= 0
    for error in damaged.values():
        assert "of the cut 'v1'" in str(error) or "version" in str(error)


@given(damaged_json(json.loads(str(CUT))))
def test_a_damaged_cut_is_a_value_error(value: bytes) -> None:
    with suppress(ValueError):
        assert parse_cut(str(parse_cut(value.decode("utf-8", "replace"))))


def test_a_damaged_record_is_in_the_way_of_no_other_cut() -> None:
    values = {b"v1": json.dumps(STORED).encode(), b"v2": b"{", b"\xff": b"[]"}
    found, damaged = parsed_cuts(values, "shop")
    assert (list(found), list(damaged)) == (["v1"], ["v2", "\ufffd"])
    told = str(damaged["v2"])
    assert "the record of the cut 'v2' in 'shop-logstate-named-cuts' is damaged" in told
    assert "`logstate cut delete v2 --application-id shop` removes the record" in told


@pytest.mark.parametrize(
    "topic", ["payments", "shop-logstate-cut.v2.spend.rows", "shop-x-changelog"]
)
def test_a_record_that_names_a_topic_that_is_not_its_copy_is_refused(topic: str) -> None:
    forged = {**STORED, "stores": {"spend": {**STORED["stores"]["spend"], "topic": topic}}}
    with pytest.raises(RestoreError, match=f"in '{topic}', which is not a copy of this cut"):
        parse_named_cut(json.dumps(forged), "shop", "v1")


def test_a_record_under_the_name_of_another_cut_is_refused() -> None:
    with pytest.raises(RestoreError, match="it is the record of the cut 'v1'"):
        parse_named_cut(json.dumps(STORED), "shop", "v2")
