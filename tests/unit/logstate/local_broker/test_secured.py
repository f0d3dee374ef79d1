"""The second listener of a local broker: what becomes server properties, and what cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from logstate.contracts.errors import ConfigError
from logstate.local_broker.certificates import LocalAuthority
from logstate.local_broker.config import server_properties
from logstate.local_broker.java import Java
from logstate.local_broker.jvm import Launch, write_settings
from logstate.local_broker.secured import check_users, client_settings, secured_listener


def test_users_get_a_listener_of_their_own_beside_the_plain_one() -> None:
    text = server_properties(
        port=1,
        controller_port=2,
        log_directory=Path("logs"),
        overrides={},
        another=secured_listener({"ada": "secret", "bob": "other"}, None, 3),
    )
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert settings["listeners"] == (
        "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2,SASL_PLAINTEXT://127.0.0.1:3"
    )
    assert settings["advertised.listeners"] == (
        "PLAINTEXT://127.0.0.1:1,SASL_PLAINTEXT://127.0.0.1:3"
    )
    assert settings["listener.security.protocol.map"].endswith("SASL_PLAINTEXT:SASL_PLAINTEXT")
    login = settings["listener.name.sasl_plaintext.plain.sasl.jaas.config"]
    assert login.endswith('required user_ada="secret" user_bob="other";')
    assert settings["super.users"] == "User:ANONYMOUS"


def test_with_tls_their_listener_is_another_one_and_clients_know_the_authority(
    tmp_path: Path,
) -> None:
    settings = secured_listener({"ada": "secret"}, tmp_path, 3)
    assert settings["listeners"] == "SASL_SSL://127.0.0.1:3"
    assert settings["listener.name.sasl_ssl.ssl.keystore.location"] == f"{tmp_path}/server.pem"
    client = client_settings(("ada", "secret"), tmp_path)
    assert client["security.protocol"] == "SASL_SSL"
    assert client["ssl.ca.location"] == f"{tmp_path}/ca.pem"
    assert client_settings(None, tmp_path)["security.protocol"] == "SSL"


def test_certificates_that_are_there_stay_and_nobody_else_reads_the_key(tmp_path: Path) -> None:
    LocalAuthority().write(tmp_path / "tls")
    made = {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()}
    assert sorted(made) == ["ca.pem", "server.pem"]
    assert (tmp_path / "tls" / "server.pem").stat().st_mode & 0o077 == 0
    LocalAuthority().write(tmp_path / "tls")
    assert {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()} == made


@pytest.mark.parametrize(
    ("name", "password"), [("", "x"), ("ada", ""), ("a b", "x"), ("ada", 'x"'), ("ada", "a;b")]
)
def test_what_would_not_survive_a_server_property_is_refused(name: str, password: str) -> None:
    with pytest.raises(ConfigError, match="user"):
        check_users({name: password})


def test_passwords_are_for_the_eyes_of_their_owner(tmp_path: Path) -> None:
    launch = Launch(
        java=Java(tmp_path / "java", 17, "PATH"),
        jars=tmp_path,
        data=tmp_path,
        temporary=False,
        heap="1m",
        properties={},
        detached=True,
        timeout_s=1,
        users={"ada": "secret"},
    )
    launch.settings.write_text("", encoding="utf-8")
    launch.settings.chmod(0o644)

    write_settings(launch, port=1, controller_port=2, secured_port=3)

    assert "secret" in launch.settings.read_text(encoding="utf-8")
    assert launch.settings.stat().st_mode & 0o777 == 0o600
    assert "secret" not in repr(launch)
