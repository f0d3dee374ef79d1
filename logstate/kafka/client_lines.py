"""The log lines that the Kafka clients write themselves.

Every client has its own connections, and logs each failure: brokers that are unavailable for a
minute cause a thousand lines. While a KafkaProbe queries the brokers, lines about connections are
counted for it instead, and logged at level DEBUG; while the brokers are unavailable this applies to
every line. The probe's caller reports the outage once.

No client line is logged above WARNING: the engine recovers from errors that the client calls fatal
(it was fenced, its transaction timed out) with a new client, and reports what it cannot recover
from itself. Lines about such errors and about transactions are logged at level DEBUG.
"""

from __future__ import annotations

import logging
import threading

from confluent_kafka import KafkaError

from logstate.contracts.clients import ClientErrors

#: the client's names of lines about connections and requests that wait for them
_CONNECTIONS = frozenset({"FAIL", "REQTMOUT", "GETPID", "BROKERDOWN", "HEARTBEAT", "SESSTMOUT"})
#: the name of lines that may be about connections, by their text
_ERROR = "ERROR"
#: the names of lines about errors that the calls of the engine raise, too
_RAISED = frozenset({"FATAL", "TXNERR"})
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
        #: a probe takes the client errors and reports them
        self.is_watched = False
        self.is_away = False

    def log(self, level: int, form: str, *args: object, **_: object) -> None:
        """Log one line, in the arguments of the client: facility, client, text."""
        facility, text = (str(args[0]), str(args[-1])) if len(args) > 1 else ("", form % args)
        is_complaint = facility in _CONNECTIONS or (facility == _ERROR and "broker" in text)
        if is_complaint:
            with self._lock:
                self._lines += 1
                if facility == "FAIL" and level > logging.INFO and not self._is_refusal:
                    self._reason = _without_thread(text)
        if facility in _RAISED or (self.is_watched and (is_complaint or self.is_away)):
            level = logging.DEBUG
        self._logger.log(min(level, logging.WARNING), form, *args)

    def failed(self, error: KafkaError) -> None:
        """Handle an ``error_cb``, which has the error's code in addition to the text."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            return  # reported after the reasons
        is_refusal = error.code() in _REFUSALS
        with self._lock:
            if is_refusal or not self._is_refusal:  # errors after a refusal are less specific
                self._reason, self._is_refusal = error.str(), is_refusal

    def take(self) -> ClientErrors:
        """Return the client errors since the last call."""
        with self._lock:
            taken = ClientErrors(self._lines, self._reason, self._is_refusal)
            self._lines, self._reason, self._is_refusal = 0, None, False
        return taken


def _without_thread(text: str) -> str:
    """Return the line without the name of the client's thread at its start."""
    return text.split("]: ", 1)[-1] if text.startswith("[thrd:") else text
