"""``logstate bench`` as a whole application on the real broker, which is as before afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from logstate.cli.main import app as command
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import ConfigError
from logstate.kafka.cluster import KafkaCluster

MODULE = """
from logstate import StreamsBuilder

def counts():
    builder = StreamsBuilder()
    words = builder.stream("TOPIC.in", key=str, value=str)
    grouped = words.group_by(lambda key, word: word[:2], key=str, name="by-start")
    grouped.count(store="counts").to_stream().to("TOPIC.out", key=str, value=int)
    return builder.build()
"""


def test_an_application_is_measured_on_brokers_and_leaves_nothing_there(
    bootstrap: str,
    unique: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = unique("bench")
    module = name.replace("-", "_")
    (tmp_path / f"{module}.py").write_text(MODULE.replace("TOPIC", name), encoding="utf-8")
    admin = KafkaCluster(bootstrap).admin()
    asked = ["bench", f"{module}:counts", "--bootstrap", bootstrap, "--records", "5000", "--json"]
    answer = CliRunner().invoke(command, asked)
    assert answer.exit_code == 0, (answer.output, answer.exception)
    told = json.loads(answer.stdout)
    assert told["records"] == 5_000
    assert told["outputs"][f"{name}.out"] == 5_000
    assert told["records_per_s"] > 0
    left = [one for one in admin.topic_names() if name in one or "logstate-bench" in one]
    assert left == []
    admin.create_topics([NewTopic(f"{name}.out", 1, 1, {})])
    refused = CliRunner().invoke(command, asked)
    assert isinstance(refused.exception, ConfigError)
    assert f"topic '{name}.out' exists" in str(refused.exception)
    assert f"{name}.out" in admin.topic_names()
    admin.close()
