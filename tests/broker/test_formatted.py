"""Directories of new brokers: formatted by Kafka's own tool once, copied from then on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logstate.contracts.errors import BrokerError
from logstate.local_broker import formatted
from logstate.local_broker.formatted import format_directory
from logstate.local_broker.jars import broker_jars
from logstate.local_broker.java import find_java
from logstate.local_broker.jvm import Launch, write_settings


@pytest.fixture
def first(tmp_path: Path) -> Launch:
    """What is kept is kept beside the jars."""
    jars = tmp_path / "jars"
    jars.symlink_to(broker_jars())
    return Launch(
        java=find_java(),
        jars=jars,
        data=tmp_path / "first",
        temporary=True,
        heap="320m",
        properties={"num.io.threads": "3"},
        detached=False,
        timeout_s=60.0,
    )


def about(launch: Launch, port: int) -> dict[str, str]:
    launch.data.mkdir()
    write_settings(launch, port=port, controller_port=port + 1)
    format_directory(launch)
    lines = (launch.records / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def files(launch: Launch) -> dict[str, bytes]:
    found = {str(p.relative_to(launch.records)): p for p in launch.records.rglob("*")}
    return {name: p.read_bytes() for name, p in found.items() if p.suffix == ".checkpoint"}


def kept(launch: Launch) -> list[Path]:
    return list(launch.jars.parent.glob("jars-formatted/*"))


def test_a_second_broker_begins_with_a_copy_that_has_a_cluster_of_its_own(first: Launch) -> None:
    second = replace(first, data=first.data.with_name("second"))
    told, of_second = about(first, 21_000), about(second, 31_000)
    assert of_second.pop("cluster.id") != told.pop("cluster.id")
    assert of_second == told, "the directory's id among them, which the formatter makes up"
    assert files(second) == files(first)
    assert sorted(path.name for path in second.data.iterdir()) == [
        "kafka",
        "log4j2.properties",
        "server.properties",
    ]


def test_other_settings_are_looked_at_by_the_formatter(first: Launch) -> None:
    about(first, 21_000)
    wrong = {"num.io.threads": "none"}
    second = replace(first, data=first.data.with_name("second"), properties=wrong)
    with pytest.raises(BrokerError, match="Likely a bad server property"):
        about(second, 21_000)
    assert len(kept(first)) == 1


def test_one_that_is_not_whole_is_as_if_it_were_not_there(
    first: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formatted, "_KEPT_MAX", 1)
    second = replace(first, data=first.data.with_name("second"), properties={})
    about(first, 21_000)
    (only,) = kept(first)
    (only / "meta.properties").unlink()
    third = replace(first, data=first.data.with_name("third"))
    assert about(third, 21_000)["node.id"] == "1"
    assert (only / "meta.properties").exists()
    about(second, 21_000)
    assert len(kept(first)) == 1, "no more are kept than may be"
