"""The Maven repository of the broker's jars, and downloads from it with jgo.

The repository is the first of: ``LOGSTATE_MAVEN_URL``; the first mirror of Maven Central in the
user's ``settings.xml``, selected as Maven selects it; the default of jgo. Downloads use the usual
variables for proxies and certificates (``https_proxy``, ``no_proxy``, ``REQUESTS_CA_BUNDLE``). The
servers of ``settings.xml`` are not read, so a mirror there cannot require a password.

Import this module only when a jar is missing: it needs jgo, from the extra ``broker``.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname
from xml.etree import ElementTree

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError, ConfigError
from logstate.local_broker.jar_list import Jar

try:
    import requests
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext
except ImportError as error:
    raise ConfigError(
        f"The jars of a local broker are downloaded with jgo, and {error.name} is not installed:"
        " pip install 'logstate[broker]'. Or set LOGSTATE_BOOTSTRAP to a broker that already runs"
    ) from error

#: ``mirrorOf`` values that include Maven Central
_MIRRORS_OF_CENTRAL = {"*", "central", "external:*"}
#: between attempts: a network that is down for half a minute does not fail the start
_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
_TIMEOUT_S = 30
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_RETRIED = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
#: 200: the server recovered before it was asked for the status
_RETRIED_STATUSES = {200, 408, 429, *range(500, 600)}


def repository_url(environ: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the repository, without a trailing slash.

    Raises:
        ConfigError: the configured URL is not a URL; the message says where it is configured.
    """
    if configured := environ.get("LOGSTATE_MAVEN_URL"):
        return _checked(configured, "LOGSTATE_MAVEN_URL")
    home = environ.get("HOME")
    settings = (Path(home) if home else Path.home()) / ".m2" / "settings.xml"
    if (mirror := _mirror_in(settings)) is not None:
        return _checked(mirror, str(settings))
    return MAVEN_CENTRAL_URL


def _checked(url: str, origin: str) -> str:
    parts = urlsplit(url)
    if not (parts.netloc if parts.scheme in {"http", "https"} else parts.scheme == "file"):
        raise ConfigError(
            f"{origin} has the invalid repository URL {url!r}: use a URL that starts with https://,"
            " http:// or file://"
        )
    return url.rstrip("/")


def _mirror_in(settings: Path) -> str | None:
    try:
        root = ElementTree.parse(settings).getroot()  # noqa: S314  the user's own file
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        names = {name.strip() for name in mirror.findtext("{*}mirrorOf", "").split(",")}
        if names & _MIRRORS_OF_CENTRAL and "!central" not in names:
            return mirror.findtext("{*}url", "").strip() or None
    return None


def without_password(url: str) -> str:
    """Return the URL without its user and password, for messages."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


class Repository:
    """One Maven repository: a server, or a directory (``file://``). Used by several threads.

    Args:
        url: as `repository_url` returns it.
        downloads: a directory for downloads, which no other process uses.
    """

    def __init__(self, url: str, downloads: Path) -> None:
        self._url = url
        parts = urlsplit(url)
        is_directory = parts.scheme == "file"
        self._context = MavenContext(
            repo_cache=downloads,
            local_repos=[Path(url2pathname(parts.path))] if is_directory else [],
            remote_repos={} if is_directory else {"central": url},
            timeout=_TIMEOUT_S,
        )
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Make downloads that wait for their next attempt fail at once."""
        self._stopped.set()

    def shown_url(self, jar: Jar) -> str:
        """Return the URL of the jar for messages."""
        return without_password(f"{self._url}/{jar.path}")

    def download(self, jar: Jar) -> Path:
        """Return the jar's file in the directory for downloads. Its content is not verified.

        After a broken connection or an answer of an overloaded server, wait and try again.

        Raises:
            BrokerError: the repository does not have the jar, or cannot be reached.
        """
        for pause_s in (*_PAUSES_S, None):
            try:
                return self._attempt(jar)
            except requests.RequestException as error:
                reason = text_of(error).replace(self._url, without_password(self._url))
                if pause_s is None or not _is_temporary(error):
                    raise BrokerError(self._failure(jar, reason)) from None
            text = f"{jar.file_name}: {reason}. Trying again in {pause_s:g} s"
            print(text, file=sys.stderr, flush=True)
            if self._stopped.wait(pause_s):
                break
        raise BrokerError(self._failure(jar, "the download was stopped"))

    def _attempt(self, jar: Jar) -> Path:
        group, name, version = jar.coordinates.split(":")
        artifact = self._context.project(group, name).at_version(version).artifact()
        file = artifact.cached_path
        assert file is not None
        # jgo treats an existing file as complete, but a broken connection leaves a partial file.
        file.unlink(missing_ok=True)
        try:
            found = artifact.resolve()
        except (RuntimeError, ValueError, IndexError):
            # jgo reports each status other than 200 as a missing artifact.
            if not file.exists():
                raise self._missing(jar) from None
            # Only the published SHA-1 was unreadable, and the caller compares the SHA-256.
        else:
            if found != file:  # in a repository that is a directory
                file.parent.mkdir(parents=True, exist_ok=True)
                try:
                    shutil.copyfile(found, file)
                except OSError as error:
                    raise BrokerError(self._failure(jar, text_of(error))) from error
        return file

    def _missing(self, jar: Jar) -> Exception:
        if not self._context.remote_repos:
            return BrokerError(self._failure(jar, "the file does not exist"))
        url = f"{self._url}/{jar.path}"
        with requests.get(url, stream=True, timeout=_TIMEOUT_S) as response:
            status = f"HTTP status {response.status_code} {response.reason}"
            return requests.HTTPError(status, response=response)

    def _failure(self, jar: Jar, reason: str) -> str:
        certificate = (
            " If your own authority signed the certificate, set REQUESTS_CA_BUNDLE to its file."
            if _UNTRUSTED in reason
            else ""
        )
        return (
            f"Could not download {jar.coordinates} from {self.shown_url(jar)}: {reason}. Check that"
            f" this machine reaches the repository.{certificate} To use another one, set"
            " LOGSTATE_MAVEN_URL or a mirror of Maven Central in ~/.m2/settings.xml. To use a"
            " broker that already runs, set LOGSTATE_BOOTSTRAP."
        )


def _is_temporary(error: requests.RequestException) -> bool:
    """Return whether another attempt may succeed."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return error.response.status_code in _RETRIED_STATUSES
    return isinstance(error, _RETRIED) and _UNTRUSTED not in str(error)
