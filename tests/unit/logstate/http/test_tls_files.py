"""Files of TLS that cannot be used are told before an instance begins."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.app.instance.states import ApplicationState
from logstate.contracts.errors import ConfigError
from logstate.contracts.serving import Serving
from logstate.http.tls_files import check_files
from logstate.local_broker.certificates import LocalAuthority
from logstate.local_broker.secured import AUTHORITY, KEYS
from tests.unhurried import unhurried
from tests.unit.logstate.flows import counted
from tests.unit.logstate.task.task_bench import topology_of


@pytest.fixture
def files(tmp_path: Path) -> Serving:
    """Right ones."""
    folder = tmp_path / "tls"
    LocalAuthority().write(folder)
    keys = folder / KEYS
    return Serving("127.0.0.1:0", certificate=keys, private_key=keys, authority=folder / AUTHORITY)


def test_files_that_fit_are_taken(files: Serving) -> None:
    check_files(files)
    check_files(Serving("127.0.0.1:0"))


@pytest.mark.parametrize("name", ["certificate", "private_key", "authority"])
@pytest.mark.parametrize("wrong", ["missing", "empty", "no pem", "a directory"])
def test_a_file_that_cannot_be_used_is_named(
    files: Serving, tmp_path: Path, name: str, wrong: str
) -> None:
    path = tmp_path / "wrong"
    if wrong == "a directory":
        path.mkdir()
    elif wrong != "missing":
        path.write_text("" if wrong == "empty" else "not a certificate")
    with pytest.raises(ConfigError, match=f"{name}=.*wrong'.* of Serving.*in PEM"):
        check_files(replace(files, **{name: path}))  # type: ignore[arg-type]


def test_a_key_that_belongs_to_another_certificate_is_told(files: Serving, tmp_path: Path) -> None:
    LocalAuthority().write(tmp_path / "other")
    with pytest.raises(ConfigError, match="a certificate in PEM, and its key"):
        check_files(replace(files, private_key=tmp_path / "other" / KEYS))


def test_an_instance_does_not_begin_without_its_certificate(files: Serving, tmp_path: Path) -> None:
    """It used to run, and to answer nobody."""

    def started(**wrong: Any) -> None:
        app = Application(
            topology_of(counted),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tmp_path / "state",
            serve=replace(files, **wrong),
            cluster=unhurried({"in": 1, "out": 1}),
        )
        try:
            app.start(timeout=timedelta(seconds=60))
        finally:
            app.close()
            assert app.state is ApplicationState.STOPPED

    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        started(certificate=tmp_path / "missing", private_key=tmp_path / "missing")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        started(bind="", advertised="https://here:1", authority=tmp_path / "missing")
