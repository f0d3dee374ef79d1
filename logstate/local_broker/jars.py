"""The jars of a Kafka broker, fetched once and kept in the user's cache.

What belongs to a broker is a fixed list of Maven coordinates with the digest of each
(`logstate.local_broker.jar_list`), so that nothing has to be resolved and nothing but a Python is
needed to fetch them (`logstate.local_broker.fetching`). A finished set appears in the cache under
its final name by one rename; two processes that start at once wait for each other on a file lock,
and a process that dies in between leaves a directory with which the next one continues.

Invariants:
    - A directory with the final name is complete: its ``MANIFEST`` names every file and its size.
    - The name contains a digest of the requested set, so another version never mixes in.
    - No file is in a set whose SHA-256 is not the listed one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError
from logstate.local_broker.fetching import fetch
from logstate.local_broker.jar_list import BROKER, KAFKA_VERSION, Jar
from logstate.local_broker.repository import repository_url


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """``LOGSTATE_CACHE_DIR``, else ``XDG_CACHE_HOME/logstate``, else ``~/.cache/logstate``."""
    if own := environ.get("LOGSTATE_CACHE_DIR"):
        return Path(own)
    if xdg := environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "logstate"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".cache" / "logstate"


def broker_jars(environ: Mapping[str, str] = os.environ) -> Path:
    """The directory with the broker's jars; fetches them at the first call on a machine.

    ``LOGSTATE_MAVEN_URL`` replaces Maven Central by a mirror, and so does a mirror of it in Maven's
    ``settings.xml``.

    Raises:
        BrokerError: the cache cannot be written, a jar cannot be fetched, or it is another one than
            the list says.
    """
    return jar_set(f"kafka-{KAFKA_VERSION}", BROKER, environ)


def jar_set(name: str, jars: tuple[Jar, ...], environ: Mapping[str, str] = os.environ) -> Path:
    """The directory with these jars, from the cache or the repository; raises as `broker_jars`."""

    def fill(folder: Path) -> None:
        fetch(name, jars, folder, repository_url(environ), kept=cache_directory(environ))

    asked_for = "".join(f"{jar.coordinates} {jar.sha256}\n" for jar in jars)
    return cached_set(name, asked_for, fill, environ)


def cached_set(
    name: str,
    asked_for: str,
    fill: Callable[[Path], None],
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """The directory of a set in the cache; where it is not complete, ``fill`` makes it.

    Args:
        name: what the set is called.
        asked_for: the content of the set: another text is another set.
        fill: puts the jars into a directory, which may have files of a call that died.
        environ: where the cache is.

    Raises:
        BrokerError: the cache cannot be written; whatever ``fill`` raises.
    """
    cache = cache_directory(environ)
    target = cache / f"{name}-{hashlib.sha256(asked_for.encode()).hexdigest()[:8]}"
    if _is_complete(target):
        return target
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f".{target.name}.lock"):
            if not _is_complete(target):
                _make(target, fill)
    except OSError as error:
        raise BrokerError(
            f"The jars of {name} cannot be cached under {cache}: {text_of(error)}. "
            f"Point LOGSTATE_CACHE_DIR at a directory that can be written."
        ) from error
    return target


def _make(target: Path, fill: Callable[[Path], None]) -> None:
    # Only the holder of the lock works here, so existing files were left by a crash.
    work = target.with_name(f".{target.name}.part")
    work.mkdir(exist_ok=True)
    fill(work)
    manifest = "".join(f"{jar.stat().st_size} {jar.name}\n" for jar in sorted(work.glob("*.jar")))
    (work / "MANIFEST").write_text(manifest, encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    work.rename(target)


def _is_complete(target: Path) -> bool:
    try:
        manifest = (target / "MANIFEST").read_text(encoding="utf-8")
        for line in manifest.splitlines():
            size, _, name = line.partition(" ")
            if (target / name).stat().st_size != int(size):
                return False
    except OSError:
        return False
    return True


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
