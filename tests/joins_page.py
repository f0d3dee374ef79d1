"""The table of docs/joins.md, from the recorded runs of Kafka Streams.

Each record of a recording is put into a situation (its side, whether the other side has a match,
a null key or value), and its results are looked up among the recorded outputs. Records of one
situation must all have the same result; the table shows it, and how many records it was seen for.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conformance.vectors import Case, Run, read_vector

VECTORS = Path(__file__).parent / "conformance" / "vectors"
START, END = "<!-- recorded joins -->\n", "<!-- end -->\n"

#: kind of join, and its recordings: inner, left, outer
RECORDINGS = {
    "stream–stream": ("join-inner", "join-left", "join-outer"),
    "stream–table": ("stream-table-inner", "stream-table-left", None),
    "stream–global table": (None, "stream-global-by-key", None),
    "table–table": ("table-table-inner", "table-table-left", "table-table-outer"),
    "foreign key": ("fk-inner", "fk-left", None),
}
NOTHING = "nothing"
HAS_ROW, HAS_NO_ROW = "the other side has a row", "the other side has no row"


class Piped(NamedTuple):
    """A record of a run, with what the run knows about it."""

    number: int
    is_left: bool
    key: str | None
    value: str | None
    time: int
    is_late: bool
    is_ordered: bool


class Join:
    """The recorded join of a case."""

    def __init__(self, case: Case) -> None:
        self.step = next(step for step in case.steps if step["op"] == "join")
        topics = {step["name"]: step.get("topic") for step in case.steps}
        self.left, self.right = topics[self.step["left"]], topics[self.step["right"]]
        self.is_windowed = self.step["kind"] == "stream_stream"
        self.is_foreign = self.step["kind"] == "foreign_key"
        self.runs = case.runs

    def records(self, run: Run) -> Iterator[Piped]:
        newest = {self.left: -1, self.right: -1}
        for number, event in enumerate(run.events):
            topic, time = event["topic"], event["ts"]
            is_ordered = time >= newest[topic]
            newest[topic] = max(newest[topic], time)
            reach = self.step.get("after_ms", 0) + (self.step.get("grace_ms") or 0)
            is_late = self.is_windowed and time + reach < max(newest.values())
            is_left = topic == self.left
            yield Piped(number, is_left, event["key"], event["value"], time, is_late, is_ordered)

    def situations(self, run: Run) -> Iterator[tuple[Piped, str | None]]:
        """Each record with its situation; None for one that the table leaves out."""
        records = list(self.records(run))
        seen = Counter(one.value for one in records)
        rows: dict[bool, dict[str | None, str]] = {True: {}, False: {}}
        # A record that is dropped does not advance stream time.
        end = max(one.time for one in records if None not in (one.key, one.value))
        for one in records:
            place = (
                self._windowed(one, records, end)
                if self.is_windowed
                else _of_rows(
                    one,
                    rows,
                    is_foreign=self.is_foreign,
                    is_stream=self.step["kind"] != "table_table",
                )
            )
            repeated = one.value is not None and seen[one.value] > 1
            yield one, None if repeated else place
            if one.key is None:
                continue
            if one.value is None:
                rows[one.is_left].pop(one.key, None)
            else:
                rows[one.is_left][one.key] = one.value

    def _windowed(self, one: Piped, records: list[Piped], end: int) -> str | None:
        if one.value is None:
            return "null value"
        if one.key is None:
            return "null key"
        before, after = self.step["before_ms"], self.step["after_ms"]
        matches = [
            other
            for other in records
            if other.is_left != one.is_left and other.key == one.key and other.value is not None
            if -before <= (other.time - one.time) * (1 if one.is_left else -1) <= after
        ]
        if one.is_late:
            return None if matches else "late, no match"
        if any(other.number < one.number for other in matches):
            return "a match came before"
        if matches:
            return None
        closed = one.time + after + (self.step.get("grace_ms") or 0) < end
        return "no match until the window closes" if closed else None


def _of_rows(
    one: Piped, rows: dict[bool, dict[str | None, str]], *, is_foreign: bool, is_stream: bool
) -> str:
    if one.key is None:
        return "null key"
    had = one.key in rows[one.is_left]
    if is_foreign and not one.is_left:
        has_match = any(row.split("|")[0] == one.key for row in rows[True].values())
    elif is_foreign:
        row = one.value or rows[True].get(one.key, "")
        has_match = row.split("|")[0] in rows[False]
    else:
        has_match = one.key in rows[not one.is_left]
    other = HAS_ROW if has_match else HAS_NO_ROW
    if is_stream and not is_foreign and not one.is_left:
        return "any"
    if one.value is not None:
        return _replaced(one, rows, other) if is_foreign and one.is_left else other
    if is_stream and not is_foreign:
        return "null value"
    if is_foreign and one.is_left and had and rows[True][one.key].startswith("|"):
        return "null value for a row with a null foreign key"
    return f"null value, {other}" if had else f"null value for no row, {other}"


def _replaced(one: Piped, rows: dict[bool, dict[str | None, str]], other: str) -> str:
    """A new left row of a foreign-key join: what it replaces matters if it has no match."""
    old = rows[True].get(one.key)
    old_key, new_key = (old or "").split("|")[0], (one.value or "").split("|")[0]
    if other == HAS_ROW or not old_key:
        return other
    same = "the same" if old_key == new_key else "another"
    return f"{other}, replaces a row with {same} foreign key"


def result(one: Piped, run: Run, *, is_windowed: bool) -> str:
    """What Kafka Streams sent for a record, at once or later."""
    found = set()
    for out in run.output:
        is_now, value = out["cause"] == one.number, out["value"]
        parts = [] if value is None else re.sub(r"^\(|\)$", "", value).split(",")
        if one.value is not None and one.value in parts:
            pair = "pair" if "null" not in parts else "alone"
            if is_now or (is_windowed and pair == "alone"):
                found.add(pair if is_now else "alone later")
        elif is_now and not is_windowed and one.value is None:
            found.add("tombstone" if value is None else "other alone")
        elif is_now and value is None:
            found.add("tombstone")
    if "pair" in found:
        found.discard("alone later")
    return " and ".join(sorted(found)) or NOTHING


def shown(answer: str, *, is_left: bool) -> str:
    alone = "`(left, null)`" if is_left else "`(null, right)`"
    other = "`(null, right)`" if is_left else "`(left, null)`"
    texts = {
        NOTHING: NOTHING,
        "pair": "`(left, right)`",
        "alone": f"{alone} at once",
        "alone later": f"{alone} when the window closes",
        "other alone": other,
        "tombstone": "tombstone",
    }
    return texts[answer]


class Seen(NamedTuple):
    """The result of a situation, and how many records had it."""

    answer: str
    records: int
    out_of_order: int


def seen(recording: str) -> dict[tuple[bool, str], Seen]:
    """Side and situation to the observed result; refuses two results of one situation."""
    join = Join(Case.of(read_vector(VECTORS / f"{recording}.json.gz")))
    found: dict[tuple[bool, str], Counter[str]] = defaultdict(Counter)
    unordered: Counter[tuple[bool, str]] = Counter()
    for run in join.runs:
        for one, situation in join.situations(run):
            if situation is not None:
                answer = result(one, run, is_windowed=join.is_windowed)
                found[one.is_left, situation][answer] += 1
                unordered[one.is_left, situation] += not one.is_ordered
    for place, answers in found.items():
        assert len(answers) == 1, (recording, place, answers)
    return {
        place: Seen(*next(iter(answers.items())), unordered[place])
        for place, answers in found.items()
    }


def lines() -> Iterator[str]:
    yield "| join | record | situation | inner | left | outer | records | out of order |"
    yield "|---|---|---|---|---|---|---|---|"
    for kind, recordings in RECORDINGS.items():
        columns = [seen(one) if one else {} for one in recordings]
        places = list(dict.fromkeys(place for column in columns for place in column))
        for is_left, situation in sorted(places, key=lambda place: (not place[0], place[1])):
            found = [column.get((is_left, situation)) for column in columns]
            cells = [shown(one.answer, is_left=is_left) if one else "" for one in found]
            count = sum(one.records for one in found if one)
            late = sum(one.out_of_order for one in found if one)
            side = "left" if is_left else "right"
            yield f"| {kind} | {side} | {situation} | {' | '.join(cells)} | {count} | {late} |"


def rendered(text: str) -> str:
    """The page with the table of the recordings that are there."""
    before, _, rest = text.partition(START)
    return f"{before}{START}\n" + "\n".join(lines()) + f"\n\n{END}{rest.partition(END)[2]}"
