"""Whether the extension module is used; native/test_records.py tests the module."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from logstate.cli.diagnosis.findings import Level, extension_module
from logstate.kafka.extension import (
    VARIABLE,
    extension,
    extension_state,
    record_sender,
    why_not_loaded,
    with_failure_reports,
)
from logstate.kafka.record_source import ClientRecords, record_source


def test_the_environment_can_disable_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")

    assert extension() is None
    assert extension_state() == (False, "LOGSTATE_NATIVE=0 disables it")
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    assert isinstance(record_source(consumer, {}), ClientRecords)
    config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    assert with_failure_reports(config) == config
    assert record_sender(Producer(config), len) is None
    consumer.close()


@pytest.mark.parametrize("value", [None, "", "1"])
def test_its_state_has_a_reason_in_any_case(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    is_used, reason = extension_state()

    assert is_used is (extension() is not None)
    assert is_used is (why_not_loaded() == "")
    assert reason
    finding = extension_module(is_used, reason)
    assert (finding.level is Level.OK) is is_used
    assert reason in finding.found
