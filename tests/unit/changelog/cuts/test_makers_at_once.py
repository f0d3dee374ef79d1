"""Several who make, delete and expire one cut at the same time: whatever happens when.

A schedule lets one begin so many calls, another one so many, and both go on. What comes of it is
looked at after each.
"""

from __future__ import annotations

import random
from functools import partial
from itertools import product

import pytest

from logstate.changelog.cuts.cut_catalog import CutCatalog
from logstate.contracts.errors import ConfigError
from tests.unit.changelog.cuts.makers import Actor, Bench, act_by_turns, create, steps_of


def ada(shelf: CutCatalog) -> None:
    create(shelf, "x", b"ada")


def bob(shelf: CutCatalog) -> None:
    create(shelf, "x", b"bob")


def delete(shelf: CutCatalog) -> None:
    shelf.abandon("x")


def with_an_expired_cut() -> Bench:
    bench = Bench()
    create(bench.shelf, "x", b"old", expires_at_ms=1_001)
    bench.clock.advance(1)
    return bench


def with_a_cut() -> Bench:
    bench = Bench()
    create(bench.shelf, "x", b"old")
    return bench


def maker_of(bench: Bench) -> bytes | None:
    """Who made all of the cut that is there. None: there is nothing of it."""
    if "x" in bench.cuts():
        (maker,) = bench.makers_of("x")
        return maker
    assert bench.topics_of("x") == []
    return None


def test_of_two_who_make_one_cut_exactly_one_makes_it() -> None:
    steps = steps_of(Bench, ada)

    for first, second in product(range(steps + 1), repeat=2):
        bench = Bench()
        both = {b"ada": Actor(bench, ada), b"bob": Actor(bench, bob)}
        act_by_turns(list(both.values()), [0] * first + [1] * second)

        (maker,) = [name for name, actor in both.items() if actor.is_done]
        assert maker_of(bench) == maker, (first, second)
        (refused,) = [actor.error for actor in both.values() if actor.error]
        assert isinstance(refused, ConfigError)


@pytest.mark.parametrize("seed", range(100))
def test_so_it_is_of_three_in_any_order(seed: int) -> None:
    drawn = random.Random(seed)
    bench = Bench()
    names = [b"ada", b"bob", b"cy"]
    three = [Actor(bench, partial(create, name="x", maker=name)) for name in names]
    act_by_turns(three, drawn.choices(range(3), k=80))

    (maker,) = [name for name, actor in zip(names, three, strict=True) if actor.is_done]
    assert maker_of(bench) == maker


def check_deleted_meanwhile(maker: Actor, bench: Bench) -> None:
    """Made before or after the delete, and whole; else the maker is told, and nothing is left but
    what it made too late to be seen, which is no cut and can be deleted.
    """
    if "x" in bench.cuts():
        assert maker_of(bench) == b"ada"
        assert maker.is_done
    elif maker.is_done:
        assert bench.topics_of("x") == []
    else:
        assert "by `logstate cut delete` or by hand" in str(maker.error)
        assert bench.shelf.incomplete() == ["x"] * bool(bench.topics_of("x"))
    check_free_after_a_delete(bench)


def check_free_after_a_delete(bench: Bench) -> None:
    if bench.topics_of("x"):
        bench.shelf.abandon("x")
    assert bench.topics_of("x") == []
    create(bench.shelf, "x", b"cy")
    assert maker_of(bench) == b"cy"


def test_a_maker_whose_cut_is_deleted_meanwhile_has_made_a_whole_one_or_is_refused() -> None:
    steps, of_delete = steps_of(Bench, ada), 2 * steps_of(with_a_cut, delete)

    for first, second in product(range(steps + 1), range(of_delete + 1)):
        bench = Bench()
        both = [Actor(bench, ada), Actor(bench, delete)]
        act_by_turns(both, [0] * first + [1] * second)

        check_deleted_meanwhile(both[0], bench)


@pytest.mark.parametrize("seed", range(100))
def test_so_it_is_in_any_order(seed: int) -> None:
    drawn = random.Random(seed)
    bench = Bench()
    both = [Actor(bench, ada), Actor(bench, delete)]
    act_by_turns(both, [0] * drawn.randint(5, 12) + drawn.choices(range(2), k=60))

    check_deleted_meanwhile(both[0], bench)


@pytest.mark.parametrize("seed", range(200))
def test_two_makers_and_a_delete_leave_a_whole_cut_or_what_can_be_deleted(seed: int) -> None:
    drawn = random.Random(seed)
    bench = Bench()
    actors = [Actor(bench, act) for act in (ada, bob, delete)]
    bursts = [[drawn.randrange(3)] * drawn.randint(1, 25) for _ in range(12)]
    act_by_turns(actors, [number for burst in bursts for number in burst])

    done = [actor.is_done for actor in actors]
    if "x" in bench.cuts():
        assert done[(b"ada", b"bob").index(maker_of(bench) or b"")]
        bench.shelf.abandon("x")
    check_free_after_a_delete(bench)


def test_a_cut_that_is_made_while_another_of_its_name_expires_is_whole_or_refused() -> None:
    steps = steps_of(with_an_expired_cut, ada)
    of_expiry = steps_of(with_an_expired_cut, CutCatalog.delete_expired)

    for first, second in product(range(steps + 1), range(of_expiry + 1)):
        for order in ([0] * first + [1] * second, [1] * second + [0] * first):
            bench = with_an_expired_cut()
            maker, other = Actor(bench, ada), Actor(bench, CutCatalog.delete_expired)
            act_by_turns([maker, other], order)

            assert other.is_done, order
            assert maker_of(bench) == (b"ada" if maker.is_done else None), order
            assert maker.is_done or isinstance(maker.error, ConfigError), order
