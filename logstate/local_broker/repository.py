"""The repository from which jars are fetched: a configured one, else Maven's own default.

In this order: ``LOGSTATE_MAVEN_URL``; the first mirror of Maven Central in the user's
``settings.xml``, as Maven itself would choose it; the default of the Maven on ``PATH``, which
is in the model that every one of its projects inherits. No address is hard-coded here.
Proxies are those of the usual variables (``https_proxy``, ``no_proxy``). Servers in
``settings.xml`` are not read: mirrors that need a password are not used.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from logstate.contracts.errors import ConfigError

_DEFAULTS = "org/apache/maven/model/pom-4.0.0.xml"

#: what a mirror says it stands for, of which Maven Central is one
_STANDS_FOR_CENTRAL = {"*", "central", "external:*"}


def repository_url(environ: Mapping[str, str] = os.environ) -> str:
    """The address of the repository, without a slash at its end.

    Raises:
        ConfigError: none is configured, and Maven was not found; or the configured one is not an
            address, and the message contains its place.
    """
    if own := environ.get("LOGSTATE_MAVEN_URL"):
        return _checked(own, "LOGSTATE_MAVEN_URL")
    home = environ.get("HOME")
    settings = (Path(home) if home else Path.home()) / ".m2" / "settings.xml"
    if (mirror := _mirror_in(settings)) is not None:
        return _checked(mirror, str(settings))
    if (default := _default_of_maven(shutil.which("mvn", path=environ.get("PATH")))) is not None:
        return _checked(default, "Maven")
    raise ConfigError(
        "the jars of a broker come from a Maven repository, but none is configured: there is no"
        f" LOGSTATE_MAVEN_URL, no mirror of Maven Central in {settings}, and no Maven (mvn) on PATH"
        " whose default could be used. Set LOGSTATE_MAVEN_URL to the address of Maven Central, or"
        " of a mirror of it. LOGSTATE_BOOTSTRAP names a broker that runs already"
    )


def _checked(address: str, origin: str) -> str:
    if urlsplit(address).scheme not in {"http", "https", "file"}:
        raise ConfigError(
            f"{origin} names {address!r} as the repository of jars, which is not an address that"
            f" begins with https://, http:// or file://."
        )
    return address.rstrip("/")


def _mirror_in(settings: Path) -> str | None:
    try:
        root = ElementTree.parse(settings).getroot()  # noqa: S314  the user's own file
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        names = {name.strip() for name in mirror.findtext("{*}mirrorOf", "").split(",")}
        if names & _STANDS_FOR_CENTRAL and "!central" not in names:
            return mirror.findtext("{*}url", "").strip() or None
    return None


def _default_of_maven(command: str | None) -> str | None:
    if command is None:
        return None
    for jar in sorted(
        (Path(command).resolve().parents[1] / "lib").glob("maven-model-builder*.jar")
    ):
        try:
            with zipfile.ZipFile(jar) as content:
                root = ElementTree.fromstring(content.read(_DEFAULTS))  # noqa: S314  Maven's own
        except (OSError, KeyError, zipfile.BadZipFile, ElementTree.ParseError):
            continue
        for repository in root.iterfind("{*}repositories/{*}repository"):
            if repository.findtext("{*}id") == "central":
                return repository.findtext("{*}url", "").strip() or None
    return None
