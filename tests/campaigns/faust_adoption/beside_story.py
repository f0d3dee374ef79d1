"""Both libraries in one process, which is killed: what each has counted in the end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

from logstate.contracts.records import TopicPartition
from logstate.faust.table_rows import tables_of
from logstate.kafka.group_offsets import committed_offsets
from logstate.kafka.log_reader import latest_values
from tests.campaigns.faust_adoption.beside_app import SESSION_S, streams
from tests.campaigns.faust_adoption.faust_app import counting
from tests.campaigns.faust_adoption.story import PARTITIONS, Story, wait_until
from tests.campaigns.toolkit.process import kill, start_module
from tests.patience import PATIENCE_S

#: Faust counts records twice where its worker is missed, which a pause of the machine must not do
#: less than the time-out of its requests, 90 s, as it wants
_PATIENT_S = 80.0


class Together(NamedTuple):
    """By page, at the end."""

    logstate: dict[str, int]
    faust: dict[str, int]
    expected: dict[str, int]


def tell_beside(story: Story, records: int, kills: int = 0) -> Together:
    """Both count records until they are killed, so often, and then all; they end in order."""
    for _ in range(kills):
        _count_until_killed(story, records)
    story.send(records)
    with _worker(story, session_s=6.0 if kills else _PATIENT_S) as worker:
        wait_until(lambda: _both_read_all(story) or worker.poll() is not None)
        worker.send_signal(signal.SIGTERM)
        ended = worker.wait(PATIENCE_S)
    if ended != 0:
        raise RuntimeError(f"Faust ended with {ended}: {_log(story)}")
    with streams(story.name, story.bootstrap, story.folder) as app:
        app.wait_until_running(timedelta(seconds=PATIENCE_S))
        ours = {key: row.value for key, row in app.store("amounts").all()}
    return Together(ours, _faust_rows(story), story.expected().pages)


@contextmanager
def _worker(story: Story, session_s: float) -> Iterator[subprocess.Popen[bytes]]:
    worker = start_module(
        "tests.campaigns.faust_adoption.beside_app",
        *(story.name, story.bootstrap, story.folder),
        log=story.folder / "beside.log",
        env={**os.environ, SESSION_S: str(session_s)},
    )
    try:
        yield worker
    finally:
        kill(worker)


def _log(story: Story) -> str:
    return (story.folder / "beside.log").read_text("utf-8")[-3000:]


def _read(story: Story, group: str = "-streams") -> int:
    """Records that the group of one of both has behind it."""
    inputs = [TopicPartition(story.topic, number) for number in range(PARTITIONS)]
    found = committed_offsets(story.settings, story.name + group, inputs)
    return sum(one.offset or 0 for one in found.values())


def _count_until_killed(story: Story, records: int) -> None:
    before = _read(story), story.counted()
    story.send(records)
    with _worker(story, session_s=6.0) as worker:
        wait_until(lambda: _go_on(story, before) or worker.poll() is not None)
        worker.kill()


def _go_on(story: Story, before: tuple[int, int]) -> bool:
    return _read(story) > before[0] and story.counted() > before[1]


def _both_read_all(story: Story) -> bool:
    return _read(story) == story.sent and _read(story, group="") == story.sent


def _faust_rows(story: Story) -> dict[str, int]:
    table = tables_of(counting(story.name, story.bootstrap, str(story.folder / "faust")))["pages"]
    rows: dict[str, int] = {}
    for number in range(PARTITIONS):
        found = latest_values(story.settings, TopicPartition(table.changelog, number))
        decoded = (table.row(key, value) for key, value in found.items())
        rows |= {row.key: row.value for row in decoded}
    return rows
