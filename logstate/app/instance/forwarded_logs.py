"""What worker processes log is logged by the instance that started them.

A process sends the lines that the levels of its parent let through; the parent hands each to the
logger of the same name, with the worker before the text, ``record.worker`` and the process's id.
"""

from __future__ import annotations

import logging
from typing import Any

from logstate.app.instance.channel import Channel

#: what travels of a record; the text is made where the arguments are
_FIELDS = (
    *("name", "levelno", "levelname", "created", "msecs", "pathname", "filename", "lineno"),
    *("funcName", "module", "threadName", "process", "exc_text", "stack_info"),
)


class ForwardingHandler(logging.Handler):
    """In a worker process: sends what is logged to its parent."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        fields = {name: getattr(record, name) for name in _FIELDS}
        self._channel.send_if_room("log", {**fields, "msg": record.getMessage()})


def levels() -> dict[str, int]:
    """Logger -> level, where one was set; the root's is ``""``."""
    found = {
        name: logger.level
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and logger.level
    }
    return {**found, "": logging.root.level}


def forward(channel: Channel, levels: dict[str, int]) -> None:
    """In a worker process: from now on, what is logged goes to its parent."""
    logging.root.handlers[:] = [ForwardingHandler(channel)]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def log_again(worker: int, fields: dict[str, Any]) -> None:
    """In the parent: log a line of a worker."""
    logger = logging.getLogger(fields["name"])
    if logger.isEnabledFor(fields["levelno"]):
        text = f"worker {worker}: {fields['msg']}"
        names = {"worker": worker, "processName": f"worker-{worker}"}
        logger.handle(logging.makeLogRecord({**fields, **names, "msg": text}))
