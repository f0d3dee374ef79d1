"""A store of an instance whose workers are processes: each read goes to who has the partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from logstate.app.instance.questions import Read
from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import TaskId
from logstate.contracts.stores import StoreSpec
from logstate.queries.queries import Answer, QueryableStore


class Workers(Protocol):
    """Who answers."""

    def partitions(self, sub_topology: int, *, standbys: bool = False) -> dict[int, bool]:
        """Partition -> whether it can be read; of those that a worker here owns, or copies."""

    def task_count(self, sub_topology: int) -> int | None:
        """Partitions of a sub-topology; None before it is known."""

    def standby_lag(self, sub_topology: int) -> int:
        """Offsets that copies here lack."""

    def age(self, task: TaskId) -> timedelta:
        """How old the rows of a task are."""

    def read(self, task: TaskId, question: Read) -> Any:
        """What is read by the worker that owns a task; raises what is raised there."""

    def check(self, store: str) -> None:
        """Raises StoreUnavailableError once nothing runs any more."""


class RoutedStore(QueryableStore):
    """Reads, results and errors are those of :class:`logstate.queries.queries.QueryableStore`.

    What goes over several partitions asks them one after the other, and takes rows in parts.
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
        """How old answers are now, of the oldest partition."""
        ages = [self._workers.age(self._task(partition)) for partition in self.partitions]
        return max(ages, default=timedelta(0))

    @property
    def lag(self) -> int:
        """Offsets of changelogs that copies here lack, as it was told last; 0 without copies."""
        return self._workers.standby_lag(self._sub_topology) if self._standbys else 0

    def of_partition(self, partition: int, read: str) -> Callable[..., Any]:
        """A read of one partition, by its name, in the process of its owner."""
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
        """A read of one partition with its positions, both of the same commit, by its owner."""
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
    ) -> Read:
        age, standbys = self._max_age, self._standbys
        return Read(self.name, partition, read, arguments, options, age, standbys)

    def _here(self) -> dict[int, bool]:
        return self._workers.partitions(self._sub_topology, standbys=self._standbys)

    def _task(self, partition: int) -> TaskId:
        return TaskId(self._sub_topology, partition)

    def _count(self) -> int | None:
        self._workers.check(self.name)
        return self._workers.task_count(self._sub_topology)
