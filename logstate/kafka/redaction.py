"""Configuration with its secrets hidden: for logs, error messages, ``repr``.

A value is hidden because of its key's name, and the rule is broad on purpose: a setting that a
newer client adds must not be shown until it is listed as harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

HIDDEN = "[hidden]"

_SECRET_KEYS = frozenset(
    {
        "basic.auth.user.info",
        "sasl.jaas.config",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.extensions",
        "ssl.certificate.pem",
        "ssl.key.pem",
        "ssl_key",
    }
)
_SECRET_WORDS = ("password", "passphrase", "secret", "credential", "user.info", "token", ".pem")
# Names that contain such a word but whose values are not secret.
_SHOWN_KEYS = frozenset(
    {
        "bearer.auth.credentials.source",
        "basic.auth.credentials.source",
        "https.ca.pem",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.ca.pem",
    }
)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
# Replacing very short secrets would break ordinary words without hiding much.
_SHORTEST_SECRET = 4


def is_secret(key: str) -> bool:
    """Return whether the value of this key must not be shown.

    >>> is_secret("sasl.password"), is_secret("sasl.username")
    (True, False)
    """
    name = key.lower().replace("_", ".")
    if name in _SHOWN_KEYS:
        return False
    return name in _SECRET_KEYS or any(word in name for word in _SECRET_WORDS)


def redacted(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with every secret replaced, nested mappings included.

    Callables are replaced by their names, and user information inside URLs is hidden too.

    >>> redacted({"sasl.username": "ada", "sasl.password": "hunter2"})
    {'sasl.username': 'ada', 'sasl.password': '[hidden]'}
    """
    return {
        key: HIDDEN if is_secret(str(key)) else _without_secret(value)
        for key, value in config.items()
    }


def redacted_text(text: str, config: Mapping[str, Any]) -> str:
    """Return a text from elsewhere, such as a client's error, without the secrets of ``config``.

    >>> redacted_text("bad key hunter2", {"ssl.key.password": "hunter2"})
    'bad key [hidden]'
    """
    # The longest first, so that a secret inside another one cannot leave a part of it.
    for secret in sorted(_secrets(config), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _USER_INFO.sub(HIDDEN, text)


def _secrets(config: Mapping[str, Any]) -> Iterator[str]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif is_secret(str(key)) and len(str(value)) >= _SHORTEST_SECRET:
            yield str(value)


def _without_secret(value: Any) -> Any:
    if isinstance(value, Mapping):
        return redacted(value)
    if isinstance(value, str):
        return _USER_INFO.sub(HIDDEN, value)
    if callable(value):
        return f"<{getattr(value, '__qualname__', type(value).__name__)}>"
    return value
