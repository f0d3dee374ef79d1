"""The program of a worker process: one worker, and a pipe to the instance that started it.

The worker has its own thread. The main thread handles messages from the pipe, another thread sends
reports. When the pipe is closed, because the instance was killed, the worker commits its work and
ends, as it does on request.
"""

from __future__ import annotations

import logging
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from logstate.app.instance.by_value import UNPICKLED_HINT, dumps, loads
from logstate.app.instance.channel import Channel
from logstate.app.instance.forwarded_logs import forward
from logstate.app.instance.merged_metrics import figures_of
from logstate.app.instance.owner_process import is_worker
from logstate.app.instance.reports import WorkerReport
from logstate.app.instance.states import Lifecycle
from logstate.app.instance.worker_processes import StartCommand
from logstate.app.local_worker import LocalWorker
from logstate.app.settings import Settings
from logstate.contracts.clock import SystemClock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import LogstateError, StoreError
from logstate.queries.requests import Cursors, Pages, ReadRequest
from logstate.restore.restore import RestoreListener
from logstate.topology import Topology
from logstate.topology.declaring.module_values import ModuleValues, changed_values, module_values
from logstate.topology.dsl.topology_target import resolved

_LOGGER = logging.getLogger(__name__)

MODULE = "logstate.app.worker_main"
#: changes are reported within this time
_LOOK_S = 0.2
#: a full report is sent after this many checks
_EVERY = 5
#: number of concurrent reads, and of rows that are sent at a time
_READERS = 4
_PAGE_ROWS = 1_000
#: how long the last commit may take after the instance is gone
_LAST_COMMIT_S = 60.0

NewWorker = Callable[[StartCommand, Lifecycle, RestoreListener], LocalWorker]


def program(target: object, settings: Settings, state_dir: str | Path) -> bytes:
    """Return the pickled program of a worker process: the topology, and the settings."""
    of_worker = replace(
        settings,
        topology=None,  # type: ignore[arg-type]
        uncaught_exception_handler="stop_instance",
        log_summary_interval=None,  # the instance logs one for all workers
        serve=None,
        restore_listener=None,
    )
    values = module_values(settings.topology.declared())
    return dumps((target, of_worker, str(state_dir), values))


def new_worker(order: StartCommand, lifecycle: Lifecycle, listener: RestoreListener) -> LocalWorker:
    """Create the worker of a start command, on Kafka, with the slot of its number."""
    target, settings, state_dir, values = loads(order.program)
    topology = resolved(target)[0]
    if order.number == 0:
        _warn_of_changed_values(topology, values)
    settings = replace(
        settings,
        topology=topology.with_topic_prefix(settings.topic_prefix),
        slot=settings.slot + order.number,
    )
    return LocalWorker(settings, state_dir, settings.cluster(), SystemClock(), lifecycle, listener)


def _warn_of_changed_values(topology: Topology, main_values: ModuleValues) -> None:
    for changed in changed_values(main_values, module_values(topology.declared())):
        _LOGGER.warning(
            "%s: worker processes import the module again, without the code that changed the value"
            " after the import, so results differ from those of workers=1. Set the value where the"
            " module defines it, read it from the environment before the first import, or bind it"
            " into the function. See docs/workers.md",
            changed,
        )


def main(fd: int) -> None:
    """Run the process, from its first message to its end."""
    # A terminal or a service manager signals all processes: the instance decides what to do.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    is_worker.set()
    channel = Channel(Connection(fd), "logstate")
    order: StartCommand = channel.receive()[1]
    forward(channel, order.log_levels)
    ServedWorker(channel, order, new_worker).serve()
    logging.root.handlers.clear()


class ServedWorker:
    """Runs a worker and its pipe. ``new_worker`` creates the worker of the start command."""

    def __init__(self, channel: Channel, order: StartCommand, new_worker: NewWorker) -> None:
        self._channel = channel
        self._order = order
        self._new_worker = new_worker
        self._lifecycle = Lifecycle()
        self._stirs = threading.Event()
        self._lifecycle.listen(lambda *_: self._stirs.set())

    def serve(self) -> None:
        """Run until the worker has ended."""
        failure: BaseException | None = None
        try:
            failure = self._run()
        except Exception as exc:  # noqa: BLE001  sent to the instance, which raises it
            failure = exc
        if failure is not None:
            _add_trace(failure)
        self._channel.send("ended", None if failure is None else _picklable(failure))
        self._channel.close()

    def _run(self) -> BaseException | None:
        listener = lambda progress: self._channel.send_if_room("restore", progress)  # noqa: E731
        worker = self._new_worker(self._order, self._lifecycle, listener)
        worker.pause(self._order.is_paused)
        runs = threading.Thread(target=worker.run, name="logstate-worker", daemon=True)
        reports = threading.Thread(
            target=self._report, args=(worker,), name="logstate-report", daemon=True
        )
        runs.start()
        reports.start()
        with ThreadPoolExecutor(_READERS, "logstate-read") as readers:
            self._wait_for_messages(worker, readers)
        runs.join(_LAST_COMMIT_S)
        reports.join(_LOOK_S * _EVERY)
        return worker.failure

    def _wait_for_messages(self, worker: LocalWorker, readers: ThreadPoolExecutor) -> None:
        read = lambda request: worker.stores.read(request)  # noqa: E731, PLW0108  serdes bind then
        pages = Pages(read, _PAGE_ROWS, Cursors(None))
        while not worker.is_finished:
            if not self._channel.has_message(_LOOK_S):
                continue
            try:
                kind, content = self._channel.receive()
            except (EOFError, OSError):
                _LOGGER.error("the instance of this worker is gone")
                worker.stop()
                return
            if kind == "stop":
                worker.stop(leaves_group=content)
            elif kind == "pause":
                worker.pause(content)
            elif kind == "group_view":
                worker.update_group_view(content)
            elif kind == "siblings":
                worker.update_siblings(content)
            elif kind == "ask":
                readers.submit(self._answer, pages, *content)
            elif kind == "close":
                pages.cursors.close(content)

    def _answer(self, pages: Pages, number: int, asked: bytes) -> None:
        """Answer a request.

        Requests and replies contain user objects: exceptions from unpickling them are for the
        client that asked, not for this process.
        """
        try:
            reply = dumps(pages.reply(_request(asked), str(number)))
            self._channel.send("answer", (number, True, reply))
        except Exception as exc:  # noqa: BLE001  raised in the process that asked
            if not isinstance(exc, LogstateError):
                _add_trace(exc)
            self._channel.send("answer", (number, False, dumps(_picklable(exc))))

    # ------------------------------------------------------------------ reports

    def _report(self, worker: LocalWorker) -> None:
        sent: WorkerReport | None = None
        looks = 0
        while True:
            is_last = worker.is_finished
            report = report_of(worker)
            if is_last or looks % _EVERY == 0:
                self._channel.send("metrics", figures_of(worker.metrics))
            if is_last or looks % _EVERY == 0 or report.without_figures() != sent:
                self._channel.send("report", report)
                sent = report.without_figures()
            if is_last:
                return
            looks += 1
            self._stirs.wait(_LOOK_S)
            self._stirs.clear()


def report_of(worker: LocalWorker) -> WorkerReport:
    """Return the current report of a worker."""
    counts = worker.task_counts()
    return WorkerReport(
        facts=worker.facts(),
        is_assigned=worker.is_assigned,
        transactional_id=worker.transactional_id,
        ready=worker.readiness(),
        live=worker.liveness(),
        tasks=worker.task_reports(),
        task_counts={sub: count for sub, count in counts.items() if count is not None},
        member=next(iter(worker.group_members), None),
        standbys=worker.standbys(),
    )


def _request(asked: bytes) -> ReadRequest:
    try:
        request: ReadRequest = loads(asked)
    except Exception as exc:
        raise StoreError(
            "an argument of the read was pickled for the worker process that has the store, and"
            f" cannot be unpickled there: {type(exc).__name__}: {text_of(exc)}. {UNPICKLED_HINT}"
        ) from exc
    return request


def _add_trace(failure: BaseException) -> None:
    """Add the traceback as a note, because it is not pickled with the exception."""
    trace = "".join(traceback.format_exception(failure))
    failure.add_note(f"in a worker process:\n{trace}")


def _picklable(failure: BaseException) -> Exception:
    """Return the failure in a form that can be pickled; not all exceptions can."""
    try:
        again = loads(dumps(failure))
    except Exception:  # noqa: BLE001  constructors may raise anything
        again = None
    if isinstance(again, Exception) and isinstance(failure, Exception):
        return failure
    stand_in = LogstateError(f"{type(failure).__name__}: {failure}")
    for note in getattr(failure, "__notes__", ()):
        stand_in.add_note(note)
    return stand_in
