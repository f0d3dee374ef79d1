"""A second listener of a local broker, with TLS, or for users with names, or both.

Users have only the permissions that were granted to them. The plain listener does not change: its
clients are administrators, which can grant permissions; only this machine can reach either one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from logstate.contracts.errors import ConfigError
from logstate.local_broker.ports import LOOPBACK

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"

AUTHORITY = "ca.pem"
"""In a directory of certificates: the certificate that clients trust."""
KEYS = "server.pem"
"""There too: the broker's key and certificate."""


def protocol(*, has_users: bool, has_tls: bool) -> str:
    """Return Kafka's name of the listener's protocol."""
    if has_users:
        return "SASL_SSL" if has_tls else "SASL_PLAINTEXT"
    return "SSL"


def secured_listener(
    users: Mapping[str, str], certificates: Path | None, port: int
) -> dict[str, str]:
    """Server properties; ``listeners`` and ``advertised.listeners`` are to be added to others."""
    name = protocol(has_users=bool(users), has_tls=certificates is not None)
    settings = {
        "listeners": f"{name}://{LOOPBACK}:{port}",
        "listener.security.protocol.map": f"{name}:{name}",
    }
    of_listener = f"listener.name.{name.lower()}"
    if users:
        secrets = " ".join(f'user_{name}="{password}"' for name, password in users.items())
        settings |= {
            "sasl.enabled.mechanisms": "PLAIN",
            f"{of_listener}.plain.sasl.jaas.config": f"{_MODULE} required {secrets};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    if certificates is not None:
        settings |= {
            f"{of_listener}.ssl.keystore.type": "PEM",
            f"{of_listener}.ssl.keystore.location": str(certificates / KEYS),
        }
    return settings


def client_settings(
    user: tuple[str, str] | None = None, certificates: Path | None = None
) -> dict[str, str]:
    """Return the settings of a client of the listener, except the address."""
    has_tls = certificates is not None
    settings = {"security.protocol": protocol(has_users=user is not None, has_tls=has_tls)}
    if user is not None:
        name, password = user
        settings |= {"sasl.mechanism": "PLAIN", "sasl.username": name, "sasl.password": password}
    if certificates is not None:
        settings["ssl.ca.location"] = str(certificates / AUTHORITY)
    return settings


def check_users(users: Mapping[str, str]) -> None:
    """Raises ConfigError for names and passwords that do not survive a server property."""
    for name, password in users.items():
        if not name or not password or not f"{name}{password}".isprintable():
            raise ConfigError(
                f"user {name!r} needs a name and a password, of printable characters: name:password"
            )
        if any(sign in f"{name}{password}" for sign in '"\\;= '):
            raise ConfigError(
                f"user {name!r}: neither name nor password may have quotes, backslashes, blanks,"
                " equals signs or semicolons"
            )
