"""``logstate acls`` and ``topics create``, as far as no broker is asked."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from logstate import Application, ConfigError, StreamsBuilder
from logstate.cli.main import app as command
from logstate.topology.plan.plan import Topology


def copied() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    return builder.build()


@pytest.mark.parametrize("words", [["acls"], ["topics", "create", "--bootstrap", "nowhere:1"]])
def test_an_id_that_no_application_can_have_is_refused_with_its_words(words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        Application(copied(), application_id="bad id", bootstrap="b:1", state_dir="state")
    target = f"{__name__}:copied"
    answer = CliRunner().invoke(command, [*words, target, "--application-id", "bad id"])
    assert answer.exit_code != 0
    assert str(answer.exception) == str(refused.value)
    assert "kafka-acls" not in answer.output


def test_an_id_that_an_application_can_have_is_answered() -> None:
    answer = CliRunner().invoke(command, ["acls", f"{__name__}:copied", "--application-id", "shop"])
    assert answer.exit_code == 0, answer.output
    assert "kafka-acls.sh" in answer.output


def test_the_topics_of_an_environment_are_named_with_its_prefix() -> None:
    of = ["--application-id", "shop", "--topic-prefix", "staging.", "--dead-letter-topic", "dead"]
    answer = CliRunner().invoke(command, ["acls", f"{__name__}:copied", *of])
    assert answer.exit_code == 0, answer.output
    words = answer.output.split()
    assert {"staging.in", "staging.out", "staging.dead"} <= set(words)
    assert not {"in", "out", "dead", "staging.shop"} & set(words)
