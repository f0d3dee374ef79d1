"""Snapshots across repartitions on a real broker.

Run ``python -m tests.campaigns.snapshots`` for many.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import logstate
from logstate import Application, StreamsBuilder, Topology
from logstate.changelog.cuts.named_cuts import find_cut
from logstate.cli.main import app as command
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import ConfigError
from logstate.kafka.cluster import KafkaCluster
from tests.campaigns.snapshots.campaign import Scenario, check
from tests.campaigns.snapshots.counting import application
from tests.patience import PATIENCE_S


def test_snapshots_under_load_and_kills_agree_on_both_sides_of_repartition_topics(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("snapshots")
    scenario = Scenario(bootstrap, name, tmp_path)
    try:
        scenario.start(0)
        here = application(bootstrap, name, tmp_path / "here", workers=2)
        with scenario.load(500, seed=1), here as app:
            app.wait_until_running(timedelta(seconds=PATIENCE_S))
            first = check(scenario, app.snapshot("first", timeout=timedelta(seconds=PATIENCE_S)))
            scenario.kill(0)
            scenario.start(0)
            arguments = [
                "cut",
                "create",
                "second",
                "--application-id",
                name,
                "--bootstrap",
                bootstrap,
            ]
            options = ["--across-repartitions", "--timeout", f"{PATIENCE_S:.0f}", "--json"]
            made = CliRunner().invoke(command, [*arguments, *options])
            assert made.exit_code == 0, made.output
            assert json.loads(made.stdout)["name"] == "second"
            config = {"bootstrap.servers": bootstrap}
            assert check(scenario, find_cut(config, name, "second")) > first
    finally:
        scenario.close()


def by_key(name: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(f"{name}-in", key=str, value=int).group_by_key().count(store="counts")
    return builder.build()


def in_a_circle(name: str) -> Topology:
    builder = StreamsBuilder()
    left = builder.table(f"{name}-in", key=str, value=str, store="left")
    right = builder.table(f"{name}-right", key=str, value=str, store="right")
    joined = left.join(
        right,
        foreign_key=lambda value: value,
        joiner=lambda one, other: one + other,
        name="by-value",
        store="joined",
        value=str,
    )
    joined.to_stream().foreach(lambda _: None)
    return builder.build()


@pytest.mark.parametrize("declare", [by_key, in_a_circle])
def test_an_application_without_repartition_topics_and_one_with_a_circle_of_them(
    bootstrap: str,
    unique: Callable[[str], str],
    tmp_path: Path,
    declare: Callable[[str], Topology],
) -> None:
    name = unique(f"one-{declare.__name__}").replace("_", "-")
    admin = KafkaCluster(bootstrap).admin()
    admin.create_topics([NewTopic(f"{name}-{topic}", 2, 1, {}) for topic in ("in", "right")])
    admin.close()
    app = Application(
        declare(name), application_id=name, bootstrap=bootstrap, state_dir=tmp_path / "state"
    )
    with app:
        app.wait_until_running(timedelta(seconds=PATIENCE_S))
        if declare is in_a_circle:
            with pytest.raises(ConfigError, match="form a cycle"):
                app.snapshot("never")
            return
        app.snapshot("now")
        assert (
            logstate.read(name, "counts", bootstrap=bootstrap, cut="now").to_arrow().num_rows == 0
        )
