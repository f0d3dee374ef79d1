"""The jars of a Kafka broker, downloaded once and kept in the user's cache.

A broker needs a fixed list of Maven coordinates with the SHA-256 of each
(`logstate.local_broker.jar_list`), so no dependencies are resolved. A set of jars gets its final
name in the cache by one rename, after all of its jars are complete. Two processes that start at
once wait for each other on a file lock. After a crash, the next process downloads only the jars
that are missing.

Invariants:
    - A directory with a final name is complete: its ``MANIFEST`` lists every file and its size.
    - The final name contains a digest of the list, so sets of two versions never mix.
    - Every ``*.jar`` file of a set has the listed SHA-256.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError
from logstate.local_broker.jar_list import BROKER, KAFKA_VERSION, Jar

if TYPE_CHECKING:
    from logstate.local_broker.repository import Repository

_THREADS = 6


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """``LOGSTATE_CACHE_DIR``, else ``XDG_CACHE_HOME/logstate``, else ``~/.cache/logstate``."""
    if own := environ.get("LOGSTATE_CACHE_DIR"):
        return Path(own)
    if xdg := environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "logstate"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".cache" / "logstate"


def broker_jars(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory with the broker's jars; the first call on a machine downloads them.

    `logstate.local_broker.repository` says from where.

    Raises:
        BrokerError: the cache is not writable, a jar cannot be downloaded, or the repository has a
            jar with another SHA-256.
        ConfigError: jgo is missing, or the URL of the repository is invalid.
    """
    return jar_set(f"kafka-{KAFKA_VERSION}", BROKER, environ)


def jar_set(name: str, jars: tuple[Jar, ...], environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory with these jars, downloaded if necessary; raises as `broker_jars`."""

    def fill(folder: Path) -> None:
        _download_missing(name, jars, folder, environ)

    asked_for = "".join(f"{jar.coordinates} {jar.sha256}\n" for jar in jars)
    return cached_set(name, asked_for, fill, environ)


def _download_missing(
    name: str, jars: Sequence[Jar], folder: Path, environ: Mapping[str, str]
) -> None:
    """Put the jars into ``folder``, which may have some of them after a crash."""
    missing = [jar for jar in jars if not _is_in_cache(jar, folder, cache_directory(environ))]
    downloads = folder / "downloads"
    try:
        if missing:
            _download_all(name, missing, downloads, environ)
    finally:
        shutil.rmtree(downloads, ignore_errors=True)


def _download_all(
    name: str, jars: Sequence[Jar], downloads: Path, environ: Mapping[str, str]
) -> None:
    from logstate.local_broker.repository import Repository, repository_url, without_password

    url = repository_url(environ)
    total = sum(jar.size_bytes for jar in jars)
    what = f"{len(jars)} jars of {name}, {_megabytes(total)} MB"
    _report(f"downloading {what}, from {without_password(url)} (only the first time)")
    repository = Repository(url, downloads)
    with ThreadPoolExecutor(_THREADS, "jars") as threads:
        # The largest first, so that the last download to end is a small one.
        by_size = sorted(jars, key=lambda jar: -jar.size_bytes)
        work = {
            threads.submit(_download, jar, downloads.parent, repository): jar for jar in by_size
        }
        done_bytes = 0
        try:
            for done in as_completed(work):
                done.result()
                done_bytes += work[done].size_bytes
                progress = f"{_megabytes(done_bytes)} of {_megabytes(total)} MB"
                _report(f"{progress}: {work[done].file_name}")
        except BaseException:
            repository.stop()
            threads.shutdown(wait=True, cancel_futures=True)
            raise


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f}"


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _is_in_cache(jar: Jar, folder: Path, cache: Path) -> bool:
    """Return whether ``folder`` has the jar; a jar of another set is linked into it."""
    own = folder / jar.file_name
    if own.exists() and _digest(own) == jar.sha256:
        return True
    own.unlink(missing_ok=True)
    for other in cache.glob(f"*/{jar.file_name}"):
        if _digest(other) == jar.sha256:
            with suppress(OSError):  # on another file system: download it
                os.link(other, own)
                return True
    return False


def _download(jar: Jar, folder: Path, repository: Repository) -> None:
    found = repository.download(jar)
    if (sha256 := _digest(found)) != jar.sha256:
        raise BrokerError(
            f"{repository.shown_url(jar)} has the wrong content: found {found.stat().st_size} bytes"
            f" with the SHA-256 {sha256}, expected {jar.size_bytes} bytes with {jar.sha256}. Either"
            " the repository answered with a page instead of the jar, or the jar was replaced. Set"
            " LOGSTATE_MAVEN_URL to another repository."
        )
    found.rename(folder / jar.file_name)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cached_set(
    name: str,
    asked_for: str,
    fill: Callable[[Path], None],
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """The directory of a set in the cache; where it is not complete, ``fill`` makes it.

    Args:
        name: what the set is called.
        asked_for: what it is made of: another text is another set.
        fill: puts the jars into a directory, which may hold what a call that died has left.
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
                _create_atomically(target, fill)
    except OSError as error:
        raise BrokerError(
            f"The jars of {name} cannot be cached under {cache}: {text_of(error)}. "
            f"Point LOGSTATE_CACHE_DIR at a directory that can be written."
        ) from error
    return target


def _create_atomically(target: Path, fill: Callable[[Path], None]) -> None:
    # Only the holder of the lock works here, so whatever is in the way was left by a crash.
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
