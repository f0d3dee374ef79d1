"""Check the TLS files of an instance before it starts.

The server reads them in another thread, and the client at the first request to another instance: a
wrong file would be noticed late, or as an instance that does not respond.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError
from logstate.contracts.serving import Serving


def check_files(serving: Serving) -> None:
    """Raise ConfigError for every file that is missing or invalid."""
    problems = []
    certificate, private_key = serving.certificate, serving.private_key
    if certificate is not None and private_key is not None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        problems += _problems_of(
            f"certificate={str(certificate)!r} and private_key={str(private_key)!r} of Serving",
            "a certificate in PEM, and its key, without a password",
            lambda: server.load_cert_chain(certificate, private_key, password=_no_password),
            (certificate, private_key),
        )
    authority = serving.authority
    if authority is not None:
        problems += _problems_of(
            f"authority={str(authority)!r} of Serving",
            "certificates in PEM",
            lambda: ssl.create_default_context(cafile=authority),
            (authority,),
        )
    if problems:
        raise ConfigError(problems)


def _problems_of(
    name: str, wanted: str, load: Callable[[], object], files: tuple[str | Path, ...]
) -> list[str]:
    for file in files:
        try:
            Path(file).read_bytes()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            return [f"{name}: {str(file)!r} cannot be read: {why}. Give {wanted}"]
    try:
        load()
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        return [f"{name} cannot be used: {text_of(error)}. Give {wanted}"]
    return []


def _no_password() -> str:
    """Refuse a key with a password; OpenSSL would ask for it at the terminal, and wait."""
    raise ValueError("the key has a password")
