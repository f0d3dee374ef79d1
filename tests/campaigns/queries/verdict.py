"""Whether each answer is right: by the input up to the positions that came with it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.campaigns.queries.asker import HANGS_S, Answer
from tests.performance.ratios import percentile

#: where the records of a key are: partition of the input, and offsets in their order
Places = Mapping[str, tuple[int, Sequence[int]]]


@dataclass
class Verdict:
    """Of all answers."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    hung: int = 0
    #: answers that say why there is none: words -> how many
    refused: Counter[str] = field(default_factory=Counter)
    #: refusals that do not say why
    mute: int = 0
    local_ms: list[float] = field(default_factory=list)
    routed_ms: list[float] = field(default_factory=list)

    def percentile(self, values: list[float], percent: int) -> float | None:
        """In milliseconds."""
        return round(percentile(sorted(values), percent / 100), 2) if values else None


def judge(answers: Iterable[Answer], places: Places) -> Verdict:
    """``count`` has to be the number of the key's records below the position of its partition.

    Of a key that has none there, the answer is 404, with the position.
    """
    verdict = Verdict()
    for one in answers:
        if one.took_ms >= 1_000 * HANGS_S:
            verdict.hung += 1
        elif one.status not in (200, 404) or not one.positions:
            verdict.refused[f"{one.status} {' '.join(one.reason.split()[:6])}"] += 1
            verdict.mute += not one.reason
        else:
            _look_at(one, places, verdict)
    return verdict


def _look_at(one: Answer, places: Places, verdict: Verdict) -> None:
    partition, offsets = places.get(one.key, (None, ()))
    (position,) = one.positions.values()
    (name,) = one.positions
    expected = bisect_left(offsets, position)
    if (one.count or 0) != expected or (partition is not None and name != f"in-{partition}"):
        verdict.wrong.append(
            f"{one.key} at {dict(one.positions)}: {one.count}, and it had {expected} then"
            f" (partition {partition})"
        )
        return
    verdict.right += 1
    is_local = one.host == one.asked
    (verdict.local_ms if is_local else verdict.routed_ms).append(one.took_ms)
