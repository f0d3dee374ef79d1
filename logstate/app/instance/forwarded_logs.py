"""Log records of worker processes in the instance that started them.

A worker process sends the records that the levels of its parent let through. The parent passes each
to the logger of the same name, with the worker's number before the text, ``record.worker`` and the
process id.
"""

from __future__ import annotations

import logging
from typing import Any

from logstate.app.instance.channel import Channel

#: the fields sent of a record; the text is formatted in the worker, where the arguments are
_FIELDS = (
    *("name", "levelno", "levelname", "created", "msecs", "pathname", "filename", "lineno"),
    *("funcName", "module", "threadName", "process", "exc_text", "stack_info"),
)


class ForwardingHandler(logging.Handler):
    """Sends log records of a worker process to its parent."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        fields = {name: getattr(record, name) for name in _FIELDS}
        self._channel.send_if_room("log", {**fields, "msg": record.getMessage()})


def levels() -> dict[str, int]:
    """Return the level of each logger with a level; the root logger is ``""``."""
    found = {
        name: logger.level
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and logger.level
    }
    return {**found, "": logging.root.level}


def forward(channel: Channel, levels: dict[str, int]) -> None:
    """Send all further log records of a worker process to its parent."""
    logging.root.handlers[:] = [ForwardingHandler(channel)]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def log_again(worker: int, fields: dict[str, Any]) -> None:
    """Log a worker's record in the parent."""
    logger = logging.getLogger(fields["name"])
    if logger.isEnabledFor(fields["levelno"]):
        text = f"worker {worker}: {fields['msg']}"
        names = {"worker": worker, "processName": f"worker-{worker}"}
        logger.handle(logging.makeLogRecord({**fields, **names, "msg": text}))
