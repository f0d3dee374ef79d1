"""What the Kafka clients write into the log themselves.

Every client has its own connections, and complains about each: brokers that are away for a minute
are a thousand lines. Where somebody asks the brokers beside the worker (a KafkaProbe is in use),
lines about connections are counted for him instead, and go to the level DEBUG; while the brokers
are away every line does. What is to be said about it he says, once.

Nothing a client writes is CRITICAL here: what it calls fatal (it was fenced, its transaction timed
out) is answered by the engine, with a new client.
"""

from __future__ import annotations

import logging
import threading

from confluent_kafka import KafkaError

from logstate.contracts.clients import ClientErrors

#: the client's names for lines about connections and what waits for them
_CONNECTIONS = frozenset({"FAIL", "REQTMOUT", "GETPID", "BROKERDOWN", "HEARTBEAT", "SESSTMOUT"})
#: ... and of a line that is one where it says so
_ERROR = "ERROR"
#: what the engine says itself, once
_OF_ANOTHER_KIND = ("The group id does not exist", "Inconsistent group protocol")
_REFUSALS = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
)


class ClientLines:
    """The ``logger`` of every client of one application; called from many threads."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        self._lines = 0
        self._reason: str | None = None
        self._is_refusal = False
        #: somebody takes the client errors and speaks for them
        self.is_watched = False
        self.is_away = False

    def log(self, level: int, form: str, *args: object, **_: object) -> None:
        """One line, as the client writes it: facility, client, text."""
        facility, text = (str(args[0]), str(args[-1])) if len(args) > 1 else ("", form % args)
        is_complaint = facility in _CONNECTIONS or (facility == _ERROR and "broker" in text)
        if is_complaint:
            with self._lock:
                self._lines += 1
                if facility == "FAIL" and level > logging.INFO and not self._is_refusal:
                    self._reason = _without_thread(text)
        is_said = facility == "FATAL" and any(part in text for part in _OF_ANOTHER_KIND)
        if is_said or (self.is_watched and (is_complaint or self.is_away)):
            level = logging.DEBUG
        elif level >= logging.CRITICAL:
            level = logging.WARNING
        self._logger.log(level, form, *args)

    def failed(self, error: KafkaError) -> None:
        """An ``error_cb``: says more than a line does, by its code."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            return  # told after the reasons
        is_refusal = error.code() in _REFUSALS
        with self._lock:
            if is_refusal or not self._is_refusal:  # what follows a refusal says less
                self._reason, self._is_refusal = error.str(), is_refusal

    def take(self) -> ClientErrors:
        """What came since the last call."""
        with self._lock:
            taken = ClientErrors(self._lines, self._reason, self._is_refusal)
            self._lines, self._reason, self._is_refusal = 0, None, False
        return taken


def _without_thread(text: str) -> str:
    """The line without the name of the client's thread in front of it."""
    return text.split("]: ", 1)[-1] if text.startswith("[thrd:") else text
