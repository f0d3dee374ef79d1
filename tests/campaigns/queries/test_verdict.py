"""What counts as a right answer to a query."""

from __future__ import annotations

from tests.campaigns.queries.asker import HANGS_S, Answer
from tests.campaigns.queries.verdict import Verdict, judge

#: three records of one key, and one of another
PLACES = {"a": (2, [4, 9, 12]), "b": (0, [7])}


def answer(key: str, status: int, count: int | None, position: int, **rest: object) -> Answer:
    partition = PLACES.get(key, (2, []))[0]
    found = Answer(key, 0.0, 1.0, status, count, {f"in-{partition}": position}, "h", "h", "")
    return found._replace(**rest)


def of(*answers: Answer) -> Verdict:
    return judge(answers, PLACES)


def test_an_answer_is_right_by_the_records_below_its_position() -> None:
    right = of(answer("a", 200, 2, 10), answer("a", 200, 2, 12), answer("a", 404, None, 4))
    assert (right.right, right.wrong) == (3, [])
    wrong = of(answer("a", 200, 2, 9), answer("a", 404, None, 5), answer("b", 200, 1, 7))
    assert (wrong.right, len(wrong.wrong)) == (0, 3)


def test_an_answer_of_another_partition_is_wrong() -> None:
    assert len(of(answer("a", 200, 2, 10, positions={"in-0": 10})).wrong) == 1


def test_a_refusal_counts_as_one_only_with_its_reason() -> None:
    said = answer("a", 503, None, 0, positions={}, reason="store 'counts': nobody has it")
    mute = said._replace(reason="")
    assert (of(said).refused.total(), of(said).mute, of(mute).mute) == (1, 0, 1)


def test_what_took_too_long_hung_whatever_it_answered() -> None:
    assert of(answer("a", 200, 2, 10, took_ms=1_000 * HANGS_S)).hung == 1


def test_who_answered_tells_local_from_routed() -> None:
    found = of(answer("a", 200, 2, 10), answer("a", 200, 2, 10, asked="other", took_ms=3.0))
    assert (found.local_ms, found.routed_ms) == ([1.0], [3.0])
