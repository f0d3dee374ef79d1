"""Faust counts, is stopped with records unread, and logstate counts on: what each of them saw."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from logstate.app.application import Application
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import BrokerError, StoreUnavailableError, TopicError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.topic_names import cuts_topic
from logstate.faust import Adopted, adopt, record_of
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.group_offsets import committed_offsets
from logstate.kafka.log_reader import log_bounds, log_topics
from logstate.topology import StreamsBuilder, TumblingWindows
from logstate.topology.plan.plan import Topology
from tests.campaigns.faust_adoption.faust_app import INPUT, WINDOW_S, Visit, counting
from tests.campaigns.toolkit.process import start_module
from tests.patience import PATIENCE_S, until

PARTITIONS = 2
BEGIN_MS = 1_700_000_000_000
TABLES = {"pages": "page_totals", "minutes": "page_minutes"}
_PATIENCE_S = 1_800.0


class Totals(NamedTuple):
    """By page, and by page and the start of its minute."""

    pages: dict[str, int]
    minutes: dict[tuple[str, int], int]


class Seen(NamedTuple):
    """What came of one story."""

    adopted: Adopted
    #: rows of the stores at the end
    found: Totals
    expected: Totals
    #: records that logstate read, and that were there to be read
    read: int
    unread: int


class Story:
    """One input, one application id, two libraries one after the other."""

    def __init__(self, bootstrap: str, name: str, folder: Path, pages: int = 50) -> None:
        self.bootstrap, self.name, self.folder, self.pages = bootstrap, name, folder, pages
        self.topic = f"{name}-{INPUT}"
        self.settings = {"bootstrap.servers": bootstrap}
        self.sent = 0
        # Faust's client reads lz4, our default, only with another package.
        cluster = KafkaCluster(bootstrap, {"compression.type": "none"})
        admin = cluster.admin()
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1, {})])
        admin.close()
        self.producer = cluster.plain_producer()
        self.read = 0

    def page(self, number: int) -> str:
        return f"page-{number * 7919 % self.pages}"

    def time_ms(self, number: int) -> int:
        return BEGIN_MS + number * 10

    def send(self, count: int) -> None:
        """Append records; each page is always in the same partition."""
        first, self.sent = self.sent, self.sent + count
        for start in range(first, self.sent, 10_000):
            numbers = range(start, min(start + 10_000, self.sent))
            self.producer.produce([self._record(number) for number in numbers])
        self.producer.flush()

    def _record(self, number: int) -> ProducedRecord:
        page = self.page(number)
        value = b'{"page":"%s","amount":%d}' % (page.encode(), number % 3 + 1)
        at_ms = self.time_ms(number)
        return ProducedRecord(self.topic, None, page.encode(), value, at_ms)

    def count_with_faust(self, at_least: int) -> None:
        """Run the Faust worker until it has counted so many records, and end it in order.

        Its table's changelog shows that; it commits offsets much later, and all at its end.
        """
        log = self.folder / "faust.log"
        worker = start_module(
            "tests.campaigns.faust_adoption.faust_app",
            *(self.name, self.bootstrap, self.folder / "faust"),
            log=log,
        )
        try:
            wait_until(lambda: self.counted() >= at_least or worker.poll() is not None)
            worker.send_signal(signal.SIGTERM)
            ended = worker.wait(PATIENCE_S)
        finally:
            worker.kill()
        if ended != 0 or self.committed() < at_least:
            raise RuntimeError(f"Faust ended with {ended}: {log.read_text('utf-8')[-3000:]}")

    def counted(self) -> int:
        """Records in the changelog of Faust's plain table; one for each that it counted."""
        topic = f"{self.name}-pages-changelog"
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        try:
            log_topics(self.settings, [topic])  # says at once that there is none
            return sum(one.end for one in log_bounds(self.settings, partitions).values())
        except TopicError:
            return 0

    def committed(self) -> int:
        """Records before the group's offsets."""
        inputs = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        found = committed_offsets(self.settings, self.name, inputs)
        return sum(one.offset or 0 for one in found.values())

    def adopt(self, topology: Topology | None = None, **options: Any) -> Adopted:
        app = counting(self.name, self.bootstrap, str(self.folder / "faust"))
        options = {"tables": TABLES, **options}
        return adopt(app, topology or self.topology(), bootstrap=self.bootstrap, **options)

    def crash_before_the_end_of_an_adoption(self) -> None:
        """Leave what one leaves that ended between its transaction and its last step."""
        topic = cuts_topic(self.name)
        admin = KafkaCluster(self.bootstrap).admin()
        try:
            admin.delete_topics([topic])
            wait_until(lambda: topic not in admin.describe_topics([topic]))
        finally:
            admin.close()

    def topology(self) -> Topology:
        """What goes on: the same two tables, by the DSL."""
        builder = StreamsBuilder()
        visits = builder.stream(self.topic, key=str, value=record_of(Visit)).peek(self._note)
        pages = visits.group_by_key()
        pages.aggregate(
            lambda: 0, lambda sum_, visit: sum_ + visit.amount, value=int, store="page_totals"
        )
        # Without grace the store forgets a window when it is closed; Faust's table never does.
        minutes = TumblingWindows(size=timedelta(seconds=WINDOW_S), grace=timedelta(days=1))
        pages.windowed_by(minutes).count(store="page_minutes")
        return builder.build()

    def _note(self, visit: Visit) -> None:
        self.read += 1

    def application(self) -> Application:
        return Application(
            self.topology(),
            application_id=self.name,
            bootstrap=self.bootstrap,
            state_dir=self.folder / "logstate",
            commit_interval=timedelta(milliseconds=200),
        )

    def go_on(self, more: int = 0) -> Totals:
        """Run logstate over what is left and ``more``; the rows at its end."""
        with self.application() as app:
            app.wait_until_running(timedelta(seconds=PATIENCE_S))
            self.send(more)
            wait_until(lambda: self.committed() == self.sent)
            expected = [self.expected()]
            with contextlib.suppress(AssertionError):  # whoever asked compares, and tells more
                until(lambda: _totals_or_none(app) == expected)
            return totals(app)

    def expected(self) -> Totals:
        pages: Counter[str] = Counter()
        minutes: Counter[tuple[str, int]] = Counter()
        size_ms = round(WINDOW_S * 1000)
        for number in range(self.sent):
            page, at_ms = self.page(number), self.time_ms(number)
            pages[page] += number % 3 + 1
            minutes[page, at_ms - at_ms % size_ms] += 1
        return Totals(dict(pages), dict(minutes))


def totals(app: Application) -> Totals:
    """The rows of both stores."""
    pages = {key: row.value for key, row in app.store("page_totals").all()}
    windows = app.store("page_minutes").all()
    return Totals(pages, {(key.key, key.start_ms): row.value for key, row in windows})


def _totals_or_none(app: Application) -> list[Totals]:
    try:
        return [totals(app)]
    except StoreUnavailableError:  # tasks are on their way
        return []


def wait_until(is_there: Callable[[], bool]) -> None:
    """Ask again until it is; topics that are being made have no leaders yet."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            if is_there():
                return
        except BrokerError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come")
        threading.Event().wait(0.1)


def tell(bootstrap: str, name: str, folder: Path, records: int) -> Seen:
    """Faust counts ``records`` or a few more, logstate the rest of one and a half times as many."""
    story = Story(bootstrap, name, folder)
    story.send(records + records // 4)
    story.count_with_faust(at_least=records)
    story.send(records // 4)
    adopted = story.adopt()
    unread = story.sent - sum(adopted.offsets.values())
    return Seen(adopted, story.go_on(), story.expected(), story.read, unread)
