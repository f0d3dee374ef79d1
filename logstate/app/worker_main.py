"""What a worker process runs: one worker, and a pipe to the instance that started it.

The worker has a thread of its own. The first thread answers what comes through the pipe, another
one tells how things stand. When the pipe ends, because the instance was killed, the worker commits
what is done and ends, as it does when it is told to.
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
from logstate.app.instance.questions import Answers, Question
from logstate.app.instance.reports import WorkerReport
from logstate.app.instance.states import Lifecycle
from logstate.app.instance.this_process import is_worker
from logstate.app.instance.worker_processes import StartCommand
from logstate.app.local_worker import LocalWorker
from logstate.app.settings import AppSettings
from logstate.contracts.clock import SystemClock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import LogstateError, StoreError
from logstate.restore.restore import RestoreListener
from logstate.topology import Topology
from logstate.topology.declaring.module_values import ModuleValues, changed_values, module_values
from logstate.topology.dsl.topology_target import resolved

_LOGGER = logging.getLogger(__name__)

MODULE = "logstate.app.worker_main"
#: what has changed is told within this time
_LOOK_S = 0.2
#: and how things stand, every so many looks
_EVERY = 5
#: reads at a time
_READERS = 4
#: how long the last commit may take once the instance is gone
_LAST_COMMIT_S = 60.0

NewWorker = Callable[[StartCommand, Lifecycle, RestoreListener], LocalWorker]


def program(target: object, settings: AppSettings, state_dir: str | Path) -> bytes:
    """What a worker process is to run: a topology as it travels, and the settings."""
    of_worker = replace(
        settings,
        topology=None,  # type: ignore[arg-type]
        uncaught="stop_instance",
        workers=1,
        serving=None,
        listener=None,
    )
    values = module_values(settings.topology.declared())
    return dumps((target, of_worker, str(state_dir), values))


def new_worker(order: StartCommand, lifecycle: Lifecycle, listener: RestoreListener) -> LocalWorker:
    """The worker of an order, on Kafka, with the slot of its number."""
    target, settings, state_dir, values = loads(order.program)
    topology = resolved(target)[0]
    if order.number == 0:
        _warn_of_changed_values(topology, values)
    settings = replace(settings, topology=topology, slot=settings.slot + order.number)
    return LocalWorker(settings, state_dir, settings.cluster(), SystemClock(), lifecycle, listener)


def _warn_of_changed_values(topology: Topology, main_values: ModuleValues) -> None:
    for changed in changed_values(main_values, module_values(topology.declared())):
        _LOGGER.warning(
            "%s: they import the module again, and do not run what changed it after the import, so"
            " results differ from those of workers=1. Set the value where the module defines it,"
            " read it from the environment before the first import, or bind it into the function."
            " See docs/workers.md",
            changed,
        )


def main(fd: int) -> None:
    """The process, from its first message to its end."""
    # Of a terminal or a service manager, for all processes: the instance says what follows.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    is_worker.set()
    channel = Channel(Connection(fd), "logstate")
    order: StartCommand = channel.receive()[1]
    forward(channel, order.log_levels)
    ServedWorker(channel, order, new_worker).serve()
    logging.root.handlers.clear()


class ServedWorker:
    """See the module. ``new_worker`` makes the worker of the order."""

    def __init__(self, channel: Channel, order: StartCommand, new_worker: NewWorker) -> None:
        self._channel = channel
        self._order = order
        self._new_worker = new_worker
        self._lifecycle = Lifecycle()
        self._stirs = threading.Event()
        self._lifecycle.listen(lambda *_: self._stirs.set())

    def serve(self) -> None:
        """Until the worker has ended."""
        failure: BaseException | None = None
        try:
            failure = self._run()
        except Exception as exc:  # noqa: BLE001  told to the instance, which raises it
            failure = exc
        if failure is not None:
            _add_trace(failure)
        self._channel.send("ended", None if failure is None else _travelling(failure))
        self._channel.close()

    def _run(self) -> BaseException | None:
        listener = lambda told: self._channel.send_if_room("restore", told)  # noqa: E731
        worker = self._new_worker(self._order, self._lifecycle, listener)
        worker.pause(self._order.is_paused)
        runs = threading.Thread(target=worker.run, name="logstate-worker", daemon=True)
        tells = threading.Thread(
            target=self._tell, args=(worker,), name="logstate-tell", daemon=True
        )
        runs.start()
        tells.start()
        with ThreadPoolExecutor(_READERS, "logstate-read") as readers:
            self._listen(worker, readers)
        runs.join(_LAST_COMMIT_S)
        tells.join(_LOOK_S * _EVERY)
        return worker.failure

    def _listen(self, worker: LocalWorker, readers: ThreadPoolExecutor) -> None:
        answers = Answers(lambda name, age, copies: worker.store(name, age, standbys=copies))
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
                worker.know(content)
            elif kind == "company":
                worker.meet(content)
            elif kind == "ask":
                readers.submit(self._answer, answers, *content)

    def _answer(self, answers: Answers, number: int, asked: bytes) -> None:
        """What is asked and answered has objects of the user's in it: whatever they do when they
        are made again concerns whoever asks, and nobody who only passes it on.
        """
        try:
            answer = dumps(answers.to(number, _question(asked)))
            self._channel.send("answer", (number, True, answer))
        except Exception as exc:  # noqa: BLE001  raised where it was asked
            if not isinstance(exc, LogstateError):
                _add_trace(exc)
            self._channel.send("answer", (number, False, dumps(_travelling(exc))))

    # ------------------------------------------------------------------ telling

    def _tell(self, worker: LocalWorker) -> None:
        told: WorkerReport | None = None
        looks = 0
        while True:
            is_last = worker.is_finished
            report = report_of(worker)
            if is_last or looks % _EVERY == 0:
                self._channel.send("metrics", figures_of(worker.metrics))
            if is_last or looks % _EVERY == 0 or report.without_figures() != told:
                self._channel.send("report", report)
                told = report.without_figures()
            if is_last:
                return
            looks += 1
            self._stirs.wait(_LOOK_S)
            self._stirs.clear()


def report_of(worker: LocalWorker) -> WorkerReport:
    """How things stand with a worker."""
    counts = worker.task_counts()
    return WorkerReport(
        facts=worker.facts(),
        is_assigned=worker.is_assigned,
        transactional_id=worker.transactional_id,
        ready=worker.readiness(None),
        live=worker.liveness(),
        tasks=worker.task_reports(),
        task_counts={sub: count for sub, count in counts.items() if count is not None},
        member=next(iter(worker.group_members), None),
        standbys=worker.standbys(),
    )


def _question(asked: bytes) -> Question:
    try:
        question: Question = loads(asked)
    except Exception as exc:
        raise StoreError(
            "an argument of the read was pickled for the worker process that has the store, and"
            f" cannot be unpickled there: {type(exc).__name__}: {text_of(exc)}. {UNPICKLED_HINT}"
        ) from exc
    return question


def _add_trace(failure: BaseException) -> None:
    """The place where it was raised does not travel by itself."""
    trace = "".join(traceback.format_exception(failure))
    failure.add_note(f"in a worker process:\n{trace}")


def _travelling(failure: BaseException) -> Exception:
    """The failure as it can be sent: exceptions of others need not be made for that."""
    try:
        again = loads(dumps(failure))
    except Exception:  # noqa: BLE001  whatever their constructors raise
        again = None
    if isinstance(again, Exception) and isinstance(failure, Exception):
        return failure
    stand_in = LogstateError(f"{type(failure).__name__}: {failure}")
    for note in getattr(failure, "__notes__", ()):
        stand_in.add_note(note)
    return stand_in
