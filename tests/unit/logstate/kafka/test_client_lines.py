"""The clients' own lines: counted and folded while somebody speaks for them."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError

from logstate.contracts.clients import ClientErrors
from logstate.kafka.client_lines import ClientLines
from logstate.kafka.cluster import KafkaCluster

FORM = "%s [%s] %s"
REFUSED = "b-1:9092/1: Connect to ipv4#10.0.0.1:9092 failed: Connection refused"
FAIL = ("FAIL", "app#consumer-1", f"[thrd:b-1:9092/1]: {REFUSED}")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> ClientLines:
    caplog.set_level(logging.INFO, "logstate.kafka")
    return ClientLines(logging.getLogger("logstate.kafka"))


def test_complaints_are_counted_and_the_last_reason_is_kept(lines: ClientLines) -> None:
    for _ in range(3):
        lines.log(logging.ERROR, FORM, *FAIL)
    assert lines.take() == ClientErrors(3, REFUSED, False)
    assert lines.take() == ClientErrors()


def test_a_connection_that_was_closed_while_idle_gives_no_reason(lines: ClientLines) -> None:
    lines.log(logging.INFO, FORM, "FAIL", "app#consumer-1", "[thrd:a]: a: Disconnected")
    assert lines.take() == ClientErrors(1, None, False)


def test_without_anybody_watching_every_line_is_logged(
    lines: ClientLines, caplog: pytest.LogCaptureFixture
) -> None:
    lines.log(logging.ERROR, FORM, *FAIL)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.WARNING, FORM % FAIL)


def test_a_watched_client_keeps_its_complaints_and_tells_all_else(
    lines: ClientLines, caplog: pytest.LogCaptureFixture
) -> None:
    lines.is_watched = True
    lines.log(logging.ERROR, FORM, *FAIL)
    lines.log(logging.WARNING, FORM, "CONFWARN", "app#producer-1", "no such setting")
    assert [r.getMessage().split()[0] for r in caplog.records] == ["CONFWARN"]


def test_while_the_brokers_are_away_no_line_of_a_client_is_logged(
    lines: ClientLines, caplog: pytest.LogCaptureFixture
) -> None:
    lines.is_watched = lines.is_away = True
    lines.log(logging.WARNING, FORM, "TXNCOMPL", "app#producer-1", "anything")
    assert caplog.records == []


def test_no_line_of_a_client_is_logged_above_warning(
    lines: ClientLines, caplog: pytest.LogCaptureFixture
) -> None:
    lines.log(logging.CRITICAL, FORM, "OTHER", "app#producer-1", "anything")
    assert [r.levelno for r in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("facility", ["FATAL", "TXNERR"])
def test_errors_that_the_client_raises_too_are_not_logged(
    facility: str, lines: ClientLines, caplog: pytest.LogCaptureFixture
) -> None:
    lines.log(logging.CRITICAL, FORM, facility, "app#producer-1", "Fatal error: fenced")
    assert caplog.records == []


def test_refused_credentials_are_told_from_brokers_that_are_away(lines: ClientLines) -> None:
    lines.failed(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    assert lines.take() == ClientErrors(0, "Connection refused", False)
    lines.failed(KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error"))
    lines.failed(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    lines.failed(KafkaError(KafkaError._TRANSPORT, "Disconnected"))
    assert lines.take() == ClientErrors(0, "SASL authentication error", True)


def test_a_probe_without_brokers_gets_no_answer_but_the_reason() -> None:
    probe = KafkaCluster("127.0.0.1:1").probe()
    assert not probe.ask(0.2)
    client_errors = probe.client_errors()
    assert client_errors.reason is not None
    assert "Connection refused" in client_errors.reason
    assert not client_errors.is_refusal
    probe.close()
