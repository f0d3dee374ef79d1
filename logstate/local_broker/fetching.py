"""Fetch jars from a Maven repository: several at a time, resuming interrupted downloads.

How it works: jars that another set in the cache has are copied from there. The others are fetched
by a few threads; a jar is written to a temporary name, and renamed if its SHA-256 is the listed
one. After a broken connection, or if the repository is overloaded, the rest is requested again
after a pause; a jar that was assembled from several responses and has another digest is fetched
again, from its beginning.

Invariant: a file that is called ``*.jar`` is whole and the listed one.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError
from logstate.local_broker.jar_list import Jar

_AT_ONCE = 6
#: between the attempts at a jar: a network that is away for half a minute is got over
_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
_CHUNK_BYTES = 1 << 18
_SILENCE_S = 30.0
#: answers that come to nothing however often one asks
_FINAL = {401, 403, 404, 407, 410}
_MB = 1_000_000


class Progress:
    """Bytes fetched of all bytes, written now and then: at each tenth, and at the end."""

    def __init__(self, name: str, total_bytes: int, write: Callable[[str], object]) -> None:
        self._name = name
        self._total_bytes = total_bytes
        self._bytes = 0
        self._reported = 0
        self._write = write
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Add fetched bytes; negative for bytes that have to be fetched again."""
        with self._lock:
            self._bytes += count
            tenths = min(self._bytes, self._total_bytes) * 10 // max(self._total_bytes, 1)
            if tenths > self._reported:
                self._reported = tenths
                done, of = self._bytes / _MB, self._total_bytes / _MB
                self._write(f"{self._name}: {done:.1f} of {of:.1f} MB\n")


def fetch(
    name: str,
    jars: Sequence[Jar],
    folder: Path,
    repository: str,
    *,
    kept: Path,
    write: Callable[[str], object] | None = None,
) -> None:
    """Put the jars into ``folder``; what it has of an earlier call is not fetched again.

    Args:
        name: what they are together, for messages.
        jars: the jars to fetch.
        folder: where to; it exists.
        repository: the address of a Maven repository.
        kept: a directory of other sets, which may have some of them.
        write: called with the progress; standard error when None.

    Raises:
        BrokerError: one of them cannot be fetched, or is another one than was listed.
    """
    missing = [jar for jar in jars if not _take_over(jar, folder, kept)]
    if not missing:
        return
    write = write or _to_standard_error
    total = sum(jar.size_bytes for jar in missing)
    what = f"{len(missing)} jars of {name}, {total / _MB:.1f} MB"
    write(f"fetching {what}, from {_shown(repository)} (once)\n")
    progress = Progress(name, total, write)
    with ThreadPoolExecutor(_AT_ONCE, "jars") as threads:
        # The largest first: the last one to end is then a small one.
        work = [
            threads.submit(_fetch_one, jar, folder, repository, progress, write)
            for jar in sorted(missing, key=lambda jar: -jar.size_bytes)
        ]
        try:
            for one in work:
                one.result()
        except BaseException:
            threads.shutdown(wait=True, cancel_futures=True)
            raise


def _to_standard_error(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


def _take_over(jar: Jar, folder: Path, kept: Path) -> bool:
    """Whether the jar is in ``folder`` now, because it was, or because another set has it."""
    own = folder / jar.file_name
    if own.exists() and _digest(own) == jar.sha256:
        return True
    own.unlink(missing_ok=True)
    for other in kept.glob(f"*/{jar.file_name}"):
        if _digest(other) == jar.sha256:
            with suppress(OSError):  # another file system: it is fetched
                os.link(other, own)
                return True
    return False


def _fetch_one(
    jar: Jar, folder: Path, repository: str, progress: Progress, write: Callable[[str], object]
) -> None:
    address = f"{repository}/{jar.path}"
    part = folder / f"{jar.file_name}.part"
    progress.add(_size(part))
    for pause_s in (*_PAUSES_S, None):
        begin = _size(part)
        try:
            _download(address, part, jar, progress)
        except (OSError, http.client.HTTPException) as error:
            if pause_s is None or address.startswith("file:") or not _may_pass(error):
                raise BrokerError(_failure(jar, address, error)) from error
            why = str(error) or type(error).__name__
        else:
            if (found := _digest(part)) == jar.sha256:
                part.rename(folder / jar.file_name)
                return
            size = _size(part)
            part.unlink()
            progress.add(-size)
            if pause_s is None or not begin:
                raise BrokerError(_another(jar, address, size, found))
            why = "the file assembled from several responses is another jar"
        write(f"{jar.file_name}: {why}; it is requested again in {pause_s:g} s\n")
        time.sleep(pause_s)


def _may_pass(error: Exception) -> bool:
    """Whether it is of the network, and may be another answer when one asks again."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code not in _FINAL
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return False
    return isinstance(error, _OF_THE_NETWORK) or (
        isinstance(error, OSError) and error.errno in _UNREACHABLE
    )


_OF_THE_NETWORK = (
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
)
#: in the middle of an answer
_UNREACHABLE = {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH}


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _download(address: str, part: Path, jar: Jar, progress: Progress) -> None:
    have = _size(part)
    if have == jar.size_bytes:
        return
    headers = {"Range": f"bytes={have}-"} if 0 < have < jar.size_bytes else {}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 (checked: repository)
    try:
        answer = urllib.request.urlopen(request, timeout=_SILENCE_S)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # begin at the front
            part.unlink(missing_ok=True)
            progress.add(-have)
        raise
    with answer:
        is_partial = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        if not is_partial:  # it begins at the front
            progress.add(-have)
        with part.open("ab" if is_partial else "wb") as file:
            for chunk in _chunks(answer.read):
                file.write(chunk)
                progress.add(len(chunk))
    if _size(part) < jar.size_bytes:
        raise ConnectionError(f"it ended after {_size(part)} of {jar.size_bytes} bytes")


def _chunks(read: Callable[[int], bytes]) -> Iterable[bytes]:
    while chunk := read(_CHUNK_BYTES):
        yield chunk


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _failure(jar: Jar, address: str, error: Exception) -> str:
    return (
        f"{jar.coordinates} could not be fetched from {_shown(address)}: {text_of(error)}."
        " The bytes fetched"
        f" so far are kept, and the next call resumes there. Is the repository reachable from"
        f" here? LOGSTATE_MAVEN_URL names a mirror of Maven Central (so does a mirror in"
        f" ~/.m2/settings.xml), and LOGSTATE_BOOTSTRAP a broker that runs already."
    )


def _another(jar: Jar, address: str, size: int, found: str) -> str:
    return (
        f"{_shown(address)} is not the jar that was asked for: {size} bytes with the SHA-256"
        f" {found}, listed are {jar.size_bytes} bytes with {jar.sha256}. Likely the repository"
        f" answered with an HTML page, or the jar was replaced. LOGSTATE_MAVEN_URL names"
        f" another repository."
    )


def _shown(address: str) -> str:
    """The address without a name and a password."""
    scheme, separator, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
