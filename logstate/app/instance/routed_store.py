"""A store of an instance with worker processes: each read goes to the partition's owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from logstate.app.instance.questions import PartitionRead
from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import TaskId
from logstate.contracts.stores import StoreSpec
from logstate.queries.queries import Answer, QueryableStore


class Workers(Protocol):
    """The workers that answer reads."""

    def partitions(self, sub_topology: int, *, standbys: bool = False) -> dict[int, bool]:
        """Map partitions owned or copied by a worker here to whether they can be read."""

    def task_count(self, sub_topology: int) -> int | None:
        """Return the partition count of a sub-topology; None before it is known."""

    def standby_lag(self, sub_topology: int) -> int:
        """Return the lag of the standbys here, in offsets."""

    def age(self, task: TaskId) -> timedelta:
        """Return the age of a task's rows."""

    def read(self, task: TaskId, question: PartitionRead) -> Any:
        """Read from the worker that owns a task; raises what the read raises there."""

    def check(self, store: str) -> None:
        """Raise StoreUnavailableError if the application has ended."""


class RoutedStore(QueryableStore):
    """Reads, results and errors are those of :class:`logstate.queries.queries.QueryableStore`.

    Reads over several partitions ask them one after the other, and fetch rows in parts.
    """

    def __init__(
        self,
        spec: StoreSpec,
        application_id: str,
        sub_topology: int,
        workers: Workers,
        max_age: timedelta | None,
        *,
        standbys: bool = False,
        is_placed: bool = True,
    ) -> None:
        super().__init__(
            spec,
            application_id,
            dict,
            sub_topology,
            self._count,
            partition_of,
            is_placed=is_placed,
        )
        self._workers = workers
        self._max_age = max_age
        self._standbys = standbys

    @property
    def partitions(self) -> list[int]:
        """Partitions of the store that can be read here now."""
        owned = self._here()
        return [partition for partition, is_readable in owned.items() if is_readable]

    @property
    def age(self) -> timedelta:
        """The current age of answers, of the oldest partition."""
        ages = [self._workers.age(self._task(partition)) for partition in self.partitions]
        return max(ages, default=timedelta(0))

    @property
    def lag(self) -> int:
        """Lag of the standbys here in changelog offsets, as last reported; 0 without standbys."""
        return self._workers.standby_lag(self._sub_topology) if self._standbys else 0

    def of_partition(self, partition: int, read: str) -> Callable[..., Any]:
        """Return a function that runs the named read of one partition in its owner's process."""
        self._workers.check(self.name)
        here = self._here()
        if partition not in here:
            raise self._elsewhere(partition, list(here))

        def asked(*arguments: Any, **options: Any) -> Any:
            question = self._question(partition, read, arguments, options)
            return self._workers.read(self._task(partition), question)

        return asked

    def answer(
        self, partition: int, read: str, arguments: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Answer:
        """Read one partition through its owner, with positions of the same commit."""
        self._workers.check(self.name)
        here = self._here()
        if partition not in here:
            raise self._elsewhere(partition, list(here))
        question = self._question(partition, read, arguments, dict(options))
        question = replace(question, with_positions=True)
        answer: Answer = self._workers.read(self._task(partition), question)
        return answer

    def _rows_here(self, read: str, *arguments: Any) -> Iterator[Any]:
        for found in self._of_each(read, *arguments):
            yield from found

    def _of_each(self, read: str, *arguments: Any) -> Iterator[Any]:
        self._workers.check(self.name)
        here = self._here()
        if not here:
            raise self._nowhere()
        return (self.of_partition(partition, read)(*arguments) for partition in here)

    def _question(
        self, partition: int, read: str, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> PartitionRead:
        age, standbys = self._max_age, self._standbys
        return PartitionRead(self.name, partition, read, arguments, options, age, standbys)

    def _here(self) -> dict[int, bool]:
        return self._workers.partitions(self._sub_topology, standbys=self._standbys)

    def _task(self, partition: int) -> TaskId:
        return TaskId(self._sub_topology, partition)

    def _count(self) -> int | None:
        self._workers.check(self.name)
        return self._workers.task_count(self._sub_topology)
