"""Who gets what, compared with the class by which the brokers decide it."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from logstate.contracts.range_assignor import assign_ranges
from logstate.local_broker.jars import broker_jars
from logstate.local_broker.java import find_java
from tests.patience import PATIENCE_S

SOURCE = Path(__file__).resolve().parent / "RangeAssignment.java"
GROUPS = 300

Group = tuple[dict[str, int], dict[str, list[str]], dict[str, str]]


def drawn(rng: random.Random) -> Group:
    """Partition counts, subscriptions and instance ids; now and then all are static, or none."""
    counts = {f"t{i}": rng.randrange(1, 9) for i in range(rng.randrange(1, 4))}
    members = [f"{rng.randrange(16**6):06x}" for _ in range(rng.randrange(1, 7))]
    is_same = rng.random() < 0.7
    topics = {
        m: sorted(counts)
        if is_same
        else rng.sample(sorted(counts), rng.randrange(1, len(counts) + 1))
        for m in members
    }
    share = rng.choice((0.0, 0.5, 1.0))
    static = {m: f"{rng.randrange(16**6):06x}" for m in members if rng.random() < share}
    return counts, topics, static


def line_of(group: Group) -> str:
    counts, topics, static = group
    words = [",".join(f"{t}={n}" for t, n in counts.items())]
    words += [f"{m}={static.get(m, '')}={'+'.join(found)}" for m, found in topics.items()]
    return " ".join(words)


def given_by_the_broker(groups: list[Group]) -> list[dict[str, set[str]]]:
    java = find_java()
    done = subprocess.run(
        [str(java.executable), "-cp", f"{broker_jars()}/*", str(SOURCE)],
        input="".join(f"{line_of(group)}\n" for group in groups),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    pairs = [[word.split("=") for word in line.split(" ")] for line in done.stdout.splitlines()]
    return [{m: set(found.split(",")) - {""} for m, found in line} for line in pairs]


def test_the_brokers_give_every_member_what_is_computed_here() -> None:
    rng = random.Random(7)
    groups: list[Group] = []
    while len(groups) < GROUPS:
        counts, topics, static = drawn(rng)
        groups.append((counts, topics, static))
        leaver = rng.choice(sorted(topics))
        left = {m: found for m, found in topics.items() if m != leaver}
        if left:  # the same group after a death: what they had before counts for nothing
            groups.append((counts, left, {m: i for m, i in static.items() if m != leaver}))

    answers = given_by_the_broker(groups)

    assert len(answers) == len(groups)
    for (counts, topics, static), answer in zip(groups, answers, strict=True):
        own = assign_ranges(topics, counts, static)
        assert {m: {str(tp) for tp in found} for m, found in own.items()} == answer
