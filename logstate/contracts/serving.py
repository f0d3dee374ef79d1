"""How an instance serves HTTP requests: its address, its token, its certificate."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from logstate.contracts.setting_rules import count, duration, flag, shown

_SHORTEST = timedelta(milliseconds=1)
_DRAIN_MAX = timedelta(hours=1)


@dataclass(frozen=True)
class Serving:
    """How an instance answers queries over HTTP, and how others find it.

    Args:
        bind: ``host:port`` to listen on; port 0 takes any free port. Empty if ``app.asgi()`` is
            mounted into a service of yours: then ``advertised`` is its address.
        advertised: the address for other instances, ``http://host:port`` with the path that it is
            mounted at; by default the bound one.
        token: every request has to contain it (``Authorization: Bearer``); the same on all
            instances.
        certificate, private_key: files of the instance's TLS certificate, in PEM.
        authority: file of the certificates that verify those of other instances.
        rack: its location; shown to others, and standbys are placed in other racks first. By
            default the consumers' ``client.rack``.
        is_open: without it, an address that other machines can reach needs a token.
        max_age: a read by others is refused if the rows were last known to be the newest longer
            ago. It must be less than the group's session time-out: an instance that cannot reach
            the brokers for longer may have lost its partitions without knowing.
        timeout: the limit of one request.
        drain: how long an instance that was asked to stop continues to process records and to
            answer requests, with a ``/ready`` that fails; only if ``/ready`` was requested within
            the last minute. It must be longer than the interval of the load balancer's probes.
        page_rows: maximum number of rows of one page.
        streams: maximum number of concurrent streams of changes; each is a consumer.
        connections: maximum number of HTTP connections, and never more than a quarter of the files
            that the process can open; a new one replaces an idle one.
        hosts: other names that requests may have as their host, such as that of a proxy, if
            ``bind`` is a loopback address and there is no token; others are refused.
    """

    bind: str = ""
    advertised: str = ""
    token: str = field(default="", repr=False)
    certificate: str | Path | None = None
    private_key: str | Path | None = None
    authority: str | Path | None = None
    rack: str = ""
    is_open: bool = False
    max_age: timedelta = timedelta(seconds=20)
    timeout: timedelta = timedelta(seconds=10)
    drain: timedelta = timedelta(seconds=5)
    page_rows: int = 1_000
    streams: int = 16
    connections: int = 500
    hosts: tuple[str, ...] = ()

    @property
    def scheme(self) -> str:
        """``https`` with a certificate, otherwise ``http``."""
        return "http" if self.certificate is None else "https"

    @property
    def is_secured(self) -> bool:
        """Whether other instances reach it with TLS."""
        return self.scheme == "https" or self.advertised.startswith("https://")

    def named_hosts(self) -> frozenset[str]:
        """Host names that requests may have in addition to this machine's; empty: any name.

        With a token, or at an address that others can reach, the name does not identify the client.
        """
        if self.token or not self.bind or not is_loopback(host_and_port(self.bind)[0]):
            return frozenset()
        advertised = urlsplit(self.advertised).hostname or ""
        return frozenset({"localhost", advertised.lower(), *map(str.lower, self.hosts)} - {""})

    def problems(self) -> Iterator[str]:
        """Yield what is wrong; the types of the arguments are not enforced."""
        wrong = list(self._of_texts())
        if wrong:
            yield from wrong
            return
        yield from flag("is_open of Serving", self.is_open)
        if not self.bind and not self.advertised:
            yield "Serving needs bind= or, if it is mounted, advertised="
        if self.bind:
            yield from self._of_bind()
        if self.advertised:
            parts = urlsplit(self.advertised)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                yield (
                    "advertised must be the address at which others reach this instance, as"
                    f" 'http://host:port'; got {shown(self.advertised)}"
                )
        if (self.certificate is None) != (self.private_key is None):
            yield "certificate= and private_key= of Serving must be given together"
        yield from count("page_rows", self.page_rows, least=1)
        yield from count("streams of Serving", self.streams, least=0)
        hosts: object = self.hosts
        if not isinstance(hosts, tuple) or not all(isinstance(one, str) for one in hosts):
            yield f"hosts of Serving must be a tuple of names; got {shown(hosts)}"
        yield from count("connections of Serving", self.connections, least=1)
        for name, given in (("max_age", self.max_age), ("timeout", self.timeout)):
            yield from duration(f"{name} of Serving", given, least=_SHORTEST)
        yield from duration("drain of Serving", self.drain, most=_DRAIN_MAX)

    def _of_texts(self) -> Iterator[str]:
        texts: dict[str, object] = {
            "bind": self.bind,
            "advertised": self.advertised,
            "rack": self.rack,
        }
        for name, value in texts.items():
            if not isinstance(value, str):
                yield f"{name} of Serving must be text; got {shown(value)}"
        token: object = self.token
        if not isinstance(token, str):
            yield f"token of Serving must be text; got {type(token).__name__}"  # without the secret
        elif token.strip() != token or not all(" " <= one <= "~" for one in token):
            yield (
                "token of Serving must be ASCII text without line breaks or spaces at its ends:"
                " it is sent in a header, where other characters are refused or changed"
            )
        files: dict[str, object] = {
            "certificate": self.certificate,
            "private_key": self.private_key,
            "authority": self.authority,
        }
        for name, file in files.items():
            if file is not None and not isinstance(file, (str, Path)):
                yield f"{name} of Serving must be the path of a file; got {type(file).__name__}"

    def _of_bind(self) -> Iterator[str]:
        try:
            host, port = host_and_port(self.bind)
        except ValueError:
            yield f"serve must be 'host:port', such as '127.0.0.1:8080'; got {shown(self.bind)}"
            return
        if not is_loopback(host) and not self.token and not self.is_open:
            yield (
                f"serve={self.bind!r} accepts connections from other machines without a token:"
                " anyone who can connect can read every store. Give Serving(token=...), or"
                " is_open=True if something else controls access"
            )
        if host in ("", "0.0.0.0", "::") and not self.advertised:  # noqa: S104  it is refused
            yield (
                f"serve={self.bind!r} listens on all interfaces, so others do not know its address:"
                f" give advertised='{self.scheme}://this-host:{port}'"
            )


def host_and_port(text: str) -> tuple[str, int]:
    """Split ``host:port``; raise ValueError.

    >>> host_and_port("[::1]:8080")
    ('::1', 8080)
    """
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(text)
    return host.removeprefix("[").removesuffix("]"), int(port)


def host_of(header: str) -> str:
    """Return the name in a ``Host`` header, without its port.

    >>> host_of("Localhost:80"), host_of("[::1]:80"), host_of("evil.example.")
    ('localhost', '::1', 'evil.example')
    """
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
