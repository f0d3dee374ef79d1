"""Claims of cuts: who has one, what is left where somebody dies, and the ways out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from logstate.changelog.cuts.cut_catalog import Claim
from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.cuts.named_cut import NamedCut, StoreCopy
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import (
    BrokerError,
    ConfigError,
    RestoreError,
    RetriableError,
    TopicError,
)
from logstate.contracts.topic_names import cut_claim_topic, cut_copy_topic, named_cuts_topic
from logstate.testing.fake.faults import Fault
from tests.unit.changelog.cuts.makers import SHOP, Bench, create

CLAIM = cut_claim_topic(SHOP, "x")
COPY = cut_copy_topic(SHOP, "x", "spend")
OTHER = cut_copy_topic(SHOP, "x", "visits")
TAKEN = (
    "is being made by another process, or its maker died.*"
    "`logstate cut delete x --application-id shop`"
)


class InterruptedMakerError(Exception):
    """What a test raises."""


def new(*topics: str) -> list[NewTopic]:
    return [NewTopic(topic, 1, -1, {}) for topic in topics]


def fail_of(bench: Bench, error: BaseException, before: Callable[[], None] = lambda: None) -> None:
    """Begin to make a cut, and fail."""
    with bench.shelf.making("x") as making:
        making.create_topics(new(COPY, OTHER))
        before()
        raise error


def create_after_a_lost_answer(bench: Bench) -> None:
    with bench.shelf.making("x") as making:
        with suppress(RetriableError):
            making.create_topics(new(COPY))
        making.create_topics(new(COPY))


def deleted_by(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is deleted from now on, in order."""
    found: list[str] = []
    delete = bench.cluster.delete_topic
    monkeypatch.setattr(bench.cluster, "delete_topic", lambda n: (found.append(n), delete(n)))
    return found


def test_a_claim_is_there_while_a_cut_is_made_and_gone_when_it_is_complete() -> None:
    bench = Bench()
    with bench.shelf.making("x"), pytest.raises(ConfigError, match=TAKEN):
        create(bench.shelf, "x", b"bob")
    assert bench.topics_of("x") == [CLAIM]
    bench.shelf.abandon("x")
    create(bench.shelf, "x", b"ada")

    assert bench.makers_of("x") == {b"ada"}
    with pytest.raises(ConfigError, match="'shop' has a cut 'x' already: delete it first"):
        create(bench.shelf, "x", b"bob")
    assert bench.makers_of("x") == {b"ada"}


@pytest.mark.parametrize("error", [InterruptedMakerError, RestoreError, KeyboardInterrupt])
def test_what_fails_is_given_up_with_its_claim_last(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    bench = Bench()
    deleted = deleted_by(bench, monkeypatch)

    with pytest.raises(error):
        fail_of(bench, error())
    assert bench.topics_of("x") == []
    assert deleted == [COPY, OTHER, CLAIM]


def test_a_maker_that_died_leaves_what_is_no_cut_and_a_delete_removes_it() -> None:
    bench = Bench()
    for left in ([CLAIM], [CLAIM, COPY], [COPY]):
        for topic in left:
            bench.cluster.create_topic(topic)

        assert bench.shelf.incomplete() == ["x"]
        with pytest.raises(ConfigError, match=TAKEN):
            create(bench.shelf, "x", b"ada")
        assert bench.topics_of("x") == left
        bench.shelf.abandon("x")
        assert bench.topics_of("x") == []
        with pytest.raises(ConfigError, match=r"has no cut 'x'; it has \[\]"):
            bench.shelf.abandon("x")


def test_what_is_left_of_another_name_that_begins_alike_stays() -> None:
    bench = Bench()
    create(bench.shelf, "x-2", b"ada")
    create(bench.shelf, "x", b"ada")
    bench.shelf.abandon("x")

    assert bench.makers_of("x-2") == {b"ada"}


def test_a_claim_whose_answer_was_lost_is_somebody_elses_until_it_is_deleted() -> None:
    bench = Bench()
    bench.cluster.faults.add(Fault("create_topics", RetriableError("lost"), is_carried_out=True))
    with pytest.raises(RetriableError, match="lost"):
        create(bench.shelf, "x", b"ada")
    with pytest.raises(ConfigError, match=TAKEN):
        create(bench.shelf, "x", b"ada")

    bench.shelf.abandon("x")
    create(bench.shelf, "x", b"ada")
    assert bench.makers_of("x") == {b"ada"}


def test_copies_that_begin_to_be_made_without_a_claim_are_not_deleted_by_who_has_it() -> None:
    """As a logstate does that knows no claims."""
    bench = Bench()
    shelf = bench.shelf_of(lambda: None)
    create_topics = shelf.admin.create_topics

    def beside(topics: Sequence[NewTopic]) -> set[str]:
        if CLAIM not in bench.cluster.topics:
            bench.cluster.create_topic(COPY)
        return create_topics(topics)

    shelf.admin.create_topics = beside  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match=TAKEN):
        create(shelf, "x", b"ada")
    assert bench.topics_of("x") == [COPY]


def test_topics_that_are_there_before_they_are_made_are_somebody_elses() -> None:
    bench = Bench()
    bench.cluster.faults.add(Fault("create_topics"))  # of the claim
    bench.cluster.faults.add(Fault("create_topics", RetriableError("lost"), is_carried_out=True))
    with pytest.raises(
        RestoreError, match=r"'shop-logstate-cut.x.spend.rows'\] already existed when"
    ):
        create_after_a_lost_answer(bench)
    assert bench.topics_of("x") == []


def test_a_maker_whose_claim_was_deleted_is_told_so_whatever_it_failed_of() -> None:
    bench = Bench()
    gone = BrokerError(f"topic {COPY!r} does not exist")
    with pytest.raises(RestoreError, match=f"its claim, the topic '{CLAIM}', was deleted") as told:
        fail_of(bench, gone, before=lambda: bench.shelf.abandon("x"))
    assert told.value.__cause__ is gone
    assert bench.topics_of("x") == []


def test_a_cut_whose_claim_was_deleted_is_not_there_for_a_moment() -> None:
    bench = Bench()
    with pytest.raises(RestoreError, match="was deleted while the cut was being made"):
        complete_without_a_claim(bench)
    assert named_cuts_topic(SHOP) not in bench.cluster.topics
    assert bench.topics_of("x") == []


def complete_without_a_claim(bench: Bench) -> None:
    with bench.shelf.making("x") as making:
        ids = making.create_topics(new(COPY))
        bench.cluster.delete_topic(CLAIM)
        kept = {"spend": StoreCopy({}, COPY, ids[COPY], {0: 0})}
        making.complete(NamedCut("x", 1_000, None, CutValue({}), kept))


def test_a_maker_that_lost_its_claim_deletes_its_own_copies_and_nothing_of_the_next_one() -> None:
    bench = Bench()

    def begin_the_next() -> None:
        bench.cluster.recreate_topic(CLAIM)
        bench.cluster.recreate_topic(OTHER)

    with pytest.raises(RestoreError, match="was deleted while the cut was being made"):
        fail_of(bench, BrokerError("no disk"), before=begin_the_next)
    assert bench.topics_of("x") == [CLAIM, OTHER]


def test_copies_of_the_next_maker_are_not_taken_for_those_that_were_just_made() -> None:
    bench = Bench()
    shelf = bench.shelf_of(lambda: None)
    create_topics = shelf.admin.create_topics

    def slowly(topics: Sequence[NewTopic]) -> set[str]:
        made = create_topics(topics)
        if COPY in made:
            bench.shelf.abandon("x")
            create(bench.shelf, "x", b"bob")
        return made

    shelf.admin.create_topics = slowly  # type: ignore[method-assign]
    with pytest.raises(RestoreError, match="was deleted while the cut was being made"):
        create(shelf, "x", b"ada")
    assert bench.makers_of("x") == {b"bob"}


def test_a_claim_that_somebody_else_has_now_is_not_released() -> None:
    bench = Bench()
    bench.cluster.create_topic(CLAIM)
    bench.shelf.release(Claim("x", CLAIM, "of another topic"))

    assert bench.topics_of("x") == [CLAIM]


def test_a_record_whose_answer_was_lost_leaves_the_cut_and_no_claim() -> None:
    bench = Bench()
    bench.cluster.faults.add(Fault("plain_flush"))  # of the copies
    bench.cluster.faults.add(Fault("plain_flush", RetriableError("lost"), is_carried_out=True))
    with pytest.raises(RetriableError, match="lost"):
        create(bench.shelf, "x", b"ada")

    assert bench.makers_of("x") == {b"ada"}


def test_a_cut_is_complete_though_its_claim_cannot_be_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.cluster.faults.add(Fault("delete_topics", BrokerError("not allowed")))
    create(bench.shelf, "x", b"ada")

    assert list(bench.cuts()) == ["x"]
    assert bench.shelf.incomplete() == []
    assert f"its claim topic {CLAIM} could not be deleted: not allowed" in caplog.text
    bench.shelf.abandon("x")
    assert bench.topics_of("x") == []


def test_what_cannot_be_given_up_is_told_beside_the_reason_why_it_had_to_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.cluster.faults.add(Fault("delete_topics", BrokerError("not allowed")))
    bench.cluster.faults.add(Fault("end_offsets", BrokerError("no disk")))
    with pytest.raises(BrokerError, match="no disk"):
        create(bench.shelf, "x", b"ada")

    assert (
        "cut 'x' of shop: its incomplete topics could not be deleted: not allowed. `logstate cut"
        in caplog.text
    )
    bench.shelf.abandon("x")
    assert bench.topics_of("x") == []


def test_an_expired_cut_that_somebody_else_is_at_stays_until_it_is_deleted_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    create(bench.shelf, "x", b"ada", expires_at_ms=1_001)
    bench.clock.advance(1)
    bench.cluster.create_topic(CLAIM)
    with caplog.at_level(logging.WARNING):
        create(bench.shelf, "y", b"ada")

    assert list(bench.cuts()) == ["x", "y"]
    assert f"cut 'x' of shop: it is expired, but was not deleted, because the topic {CLAIM}" in (
        caplog.text
    )
    bench.shelf.abandon("x")
    assert bench.topics_of("x") == []
    assert list(bench.cuts()) == ["y"]


def test_expired_cuts_are_deleted_with_the_next_one_and_leave_no_claim() -> None:
    bench = Bench()
    create(bench.shelf, "x", b"ada", expires_at_ms=1_001)
    create(bench.shelf, "y", b"ada", expires_at_ms=1_002)
    bench.clock.advance(1)
    create(bench.shelf, "x", b"bob")

    assert bench.makers_of("x") == {b"bob"}
    assert bench.makers_of("y") == {b"ada"}


def test_a_claim_that_a_broker_does_not_know_yet_is_waited_for() -> None:
    bench = Bench()
    shelf = bench.shelf_of(lambda: None)
    describe, begun_ms = shelf.admin.describe_topics, bench.clock.monotonic_ms()

    def behind(topics: Any, beginning: str | None = None) -> Any:
        late = bench.clock.monotonic_ms() < begun_ms + 200
        return {} if late else describe(topics, beginning)

    shelf.admin.describe_topics = behind  # type: ignore[method-assign]
    create(shelf, "x", b"ada")
    assert bench.makers_of("x") == {b"ada"}


def test_a_claim_that_stays_unknown_was_deleted() -> None:
    bench = Bench()
    shelf = bench.shelf_of(lambda: None)
    create_topics = shelf.admin.create_topics

    def gone(topics: Sequence[NewTopic]) -> set[str]:
        made = create_topics(topics)
        bench.cluster.delete_topic(CLAIM)
        return made

    shelf.admin.create_topics = gone  # type: ignore[method-assign]
    with pytest.raises(TopicError, match="were created, but do not exist after 20 s"):
        create(shelf, "x", b"ada")
    assert bench.topics_of("x") == []


def test_a_topic_of_others_that_a_forged_record_names_is_not_deleted() -> None:
    bench = Bench()
    for topic in ("payments", COPY):
        bench.cluster.create_topic(topic, 1)
    forged = {
        name: StoreCopy({}, name, bench.cluster.topic(name).topic_id, {0: 1})
        for name in ("payments", COPY)
    }
    bench.shelf.write("x", NamedCut("x", 0, None, CutValue({}), forged))

    bench.shelf.abandon("x")

    assert "payments" in bench.cluster.topics
    assert COPY not in bench.cluster.topics
    assert not bench.cuts()


def test_a_cut_whose_record_is_damaged_can_be_deleted_and_not_made() -> None:
    bench = Bench()
    damaged = {"x": RestoreError("the record of the cut 'x' is damaged")}
    shelf = replace(bench.shelf, damaged=lambda: damaged)
    with pytest.raises(RestoreError, match="is damaged"), shelf.making("x"):
        pass
    shelf.abandon("x")
    topic = named_cuts_topic(SHOP)
    assert [(one.key(), one.value()) for one in bench.cluster.records(topic)] == [(b"x", None)]
