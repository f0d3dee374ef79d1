"""Downloads from a repository on this machine: verified, retried, taken over, two at once."""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from logstate.contracts.errors import BrokerError
from logstate.local_broker import repository as downloads
from logstate.local_broker.certificates import LocalAuthority
from logstate.local_broker.jar_list import BROKER, Jar
from logstate.local_broker.jars import jar_set
from logstate.local_broker.secured import AUTHORITY, KEYS
from tests.patience import PATIENCE_S

CONTENT = bytes(range(256)) * 4_000  # about a megabyte
ATTEMPTS = len(downloads._PAUSES_S) + 1


def jar(name: str, content: bytes = CONTENT) -> Jar:
    return Jar(f"org.example:{name}:1.0", len(content), hashlib.sha256(content).hexdigest())


THING = jar("thing")


class Repository(ThreadingHTTPServer):
    """Files at their paths. The first answers for jars may be cut off or have another status."""

    daemon_threads = True

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        """File names of the requested jars."""
        self.cuts = 0
        self.statuses: list[int] = []
        self.overloaded: set[str] = set()
        """File names of jars with the status 503."""
        super().__init__(("127.0.0.1", 0), _Handler)

    def publish(self, one: Jar, content: bytes = CONTENT, sha1: bytes | None = None) -> None:
        self.files[f"/{one.path}"] = content
        if sha1 is not None:
            self.files[f"/{one.path}.sha1"] = sha1


class _Handler(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        content = self.server.files.get(self.path)
        status = 200 if content is not None else 404
        if self.path.endswith(".jar"):
            name = self.path.rpartition("/")[2]
            self.server.requests.append(name)
            status = 503 if name in self.server.overloaded else status
            status = self.server.statuses.pop(0) if self.server.statuses else status
        self.send_response(status)
        content = content if status == 200 and content is not None else b""
        self.send_header("Content-Length", str(len(content)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        if self.server.cuts and self.path.endswith(".jar"):
            self.server.cuts -= 1
            content = content[: len(content) // 2]
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_PAUSES_S", (0.0,) * (ATTEMPTS - 1))


@pytest.fixture
def repository() -> Iterator[Repository]:
    with Repository() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def environ(tmp_path: Path, repository: Repository) -> dict[str, str]:
    url = f"http://127.0.0.1:{repository.server_address[1]}/"
    return {"LOGSTATE_CACHE_DIR": str(tmp_path / "cache"), "LOGSTATE_MAVEN_URL": url}


def cached_jars(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "cache").rglob("*.jar")]


def test_the_list_names_each_jar_once_and_stays_small() -> None:
    assert len({one.file_name for one in BROKER}) == len(BROKER)
    assert sum(one.size_bytes for one in BROKER) < 45_000_000
    assert all(len(one.sha256) == 64 for one in BROKER)


def test_a_set_has_the_listed_jars_and_progress_is_on_standard_error(
    repository: Repository, environ: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    wanted = (jar("one"), jar("other"))
    for one in wanted:
        repository.publish(one)

    found = jar_set("things", wanted, environ)

    names = sorted(path.name for path in found.iterdir())
    assert names == ["MANIFEST", "one-1.0.jar", "other-1.0.jar"]
    output = capfd.readouterr()
    assert output.out == ""
    first, second, third = output.err.splitlines()
    assert first.startswith("downloading 2 jars of things, 2.0 MB, from http://127.0.0.1")
    assert second.startswith("1.0 of 2.0 MB: ")
    assert third.startswith("2.0 of 2.0 MB: ")


@pytest.mark.parametrize("content", [b"a page of a portal", CONTENT[::-1], b""])
def test_a_jar_with_another_digest_is_refused(
    content: bytes, repository: Repository, environ: dict[str, str], tmp_path: Path
) -> None:
    repository.publish(THING, content)

    with pytest.raises(
        BrokerError, match=rf"thing-1\.0\.jar .*found {len(content)} bytes"
    ) as error:
        jar_set("thing", (THING,), environ)

    assert THING.sha256 in str(error.value)
    assert hashlib.sha256(content).hexdigest() in str(error.value)
    assert repository.requests == ["thing-1.0.jar"]
    assert cached_jars(tmp_path) == []


@pytest.mark.parametrize("sha1", [None, b"", b"<html>a page</html>", b"\xff\xfe"])
def test_a_published_sha1_does_not_replace_the_listed_digest(
    sha1: bytes | None, repository: Repository, environ: dict[str, str]
) -> None:
    repository.publish(THING, sha1=sha1)

    assert (jar_set("thing", (THING,), environ) / "thing-1.0.jar").read_bytes() == CONTENT


def test_a_connection_that_breaks_is_tried_again_and_a_partial_file_is_not_used(
    repository: Repository, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    repository.publish(THING)
    repository.cuts = 2

    found = jar_set("thing", (THING,), environ)

    assert (found / "thing-1.0.jar").read_bytes() == CONTENT
    assert sorted(path.name for path in found.iterdir()) == ["MANIFEST", "thing-1.0.jar"]
    assert len(repository.requests) == 3
    assert capsys.readouterr().err.count("Trying again") == 2


def test_a_connection_that_always_breaks_leaves_no_jar(
    repository: Repository, environ: dict[str, str], tmp_path: Path
) -> None:
    repository.publish(THING)
    repository.cuts = ATTEMPTS

    with pytest.raises(BrokerError, match=r"Could not download org\.example:thing:1\.0 "):
        jar_set("thing", (THING,), environ)

    assert repository.cuts == 0
    assert list((tmp_path / "cache").glob("thing-*")) == []
    assert (jar_set("thing", (THING,), environ) / "thing-1.0.jar").read_bytes() == CONTENT


def test_what_a_crash_left_is_not_used(
    repository: Repository, environ: dict[str, str], tmp_path: Path
) -> None:
    repository.publish(THING)
    target = jar_set("thing", (THING,), environ)
    work = target.with_name(f".{target.name}.part")
    target.rename(work)
    (work / "thing-1.0.jar").write_bytes(CONTENT[:10])
    partial = work / "downloads" / THING.path
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT[:10])

    found = jar_set("thing", (THING,), environ)

    assert (found / "thing-1.0.jar").read_bytes() == CONTENT
    assert sorted(path.name for path in found.iterdir()) == ["MANIFEST", "thing-1.0.jar"]
    assert cached_jars(tmp_path) == ["thing-1.0.jar"]


def test_a_server_that_fails_twice_is_asked_again(
    repository: Repository, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    repository.publish(THING)
    # jgo does not tell one status from another, so each failure is asked for twice.
    repository.statuses = [503, 503, 500, 500]

    found = jar_set("thing", (THING,), environ)

    assert (found / "thing-1.0.jar").read_bytes() == CONTENT
    error = capsys.readouterr().err
    assert "thing-1.0.jar: HTTP status 503 Service Unavailable. Trying again in" in error
    assert "thing-1.0.jar: HTTP status 500 Internal Server Error. Trying again in" in error


def test_a_server_that_limits_requests_is_asked_again(
    repository: Repository, environ: dict[str, str]
) -> None:
    repository.publish(THING)
    repository.statuses = [429] * 7

    assert (jar_set("thing", (THING,), environ) / "thing-1.0.jar").read_bytes() == CONTENT


def test_a_server_that_keeps_failing_is_an_error_with_its_status(
    repository: Repository, environ: dict[str, str]
) -> None:
    repository.publish(THING)
    repository.statuses = [503] * 2 * ATTEMPTS

    with pytest.raises(BrokerError, match=r"org\.example:thing:1\.0 .* HTTP status 503"):
        jar_set("thing", (THING,), environ)

    assert repository.statuses == []
    jar_set("thing", (THING,), environ)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_jar_that_the_repository_refuses_is_not_asked_for_again(
    status: int, repository: Repository, environ: dict[str, str]
) -> None:
    repository.publish(THING)
    repository.statuses = [status] * 2

    with pytest.raises(BrokerError, match=rf"org\.example:thing:1\.0 .*{status}") as error:
        jar_set("thing", (THING,), environ)

    assert len(repository.requests) == 2
    assert "LOGSTATE_MAVEN_URL" in str(error.value)
    assert "LOGSTATE_BOOTSTRAP" in str(error.value)


def test_one_missing_jar_ends_the_attempts_at_the_others(
    repository: Repository, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "_PAUSES_S", (PATIENCE_S,))
    repository.overloaded = {"thing-1.0.jar"}

    with pytest.raises(BrokerError, match=r"org\.example:missing:1\.0 .*404"):
        jar_set("things", (THING, jar("missing", b"small")), environ)

    assert repository.requests.count("thing-1.0.jar") <= 2  # one attempt


def test_a_repository_that_refuses_connections_is_tried_again_and_named(
    environ: dict[str, str], repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.socket.close()

    with pytest.raises(BrokerError, match=r"from http://127\.0\.0\.1:.*refused"):
        jar_set("thing", (THING,), environ)

    assert capsys.readouterr().err.count("Trying again") == ATTEMPTS - 1


def test_a_password_in_the_url_is_in_no_message(
    repository: Repository, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = environ["LOGSTATE_MAVEN_URL"].replace("//", "//ada:hidden@")

    with pytest.raises(BrokerError, match="from http://127") as error:
        jar_set("thing", (THING,), {**environ, "LOGSTATE_MAVEN_URL": url})

    assert "hidden" not in str(error.value) + capsys.readouterr().err
    assert error.value.__cause__ is None


def test_a_certificate_of_an_unknown_authority_is_an_error_that_names_the_variable(
    repository: Repository,
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    LocalAuthority().write(tmp_path / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls" / KEYS)
    repository.socket = context.wrap_socket(repository.socket, server_side=True)
    repository.publish(THING)
    url = environ["LOGSTATE_MAVEN_URL"].replace("http:", "https:")
    secured = {**environ, "LOGSTATE_MAVEN_URL": url}

    with pytest.raises(BrokerError, match=r"CERTIFICATE_VERIFY_FAILED.*REQUESTS_CA_BUNDLE"):
        jar_set("thing", (THING,), secured)

    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "tls" / AUTHORITY))
    assert (jar_set("thing", (THING,), secured) / "thing-1.0.jar").read_bytes() == CONTENT


def test_a_damaged_cache_is_repaired_and_a_complete_one_needs_no_network(
    repository: Repository, environ: dict[str, str], tmp_path: Path
) -> None:
    repository.publish(THING)
    jars = jar_set("thing", (THING,), environ)
    (jars / "thing-1.0.jar").write_bytes(b"half")

    assert jar_set("thing", (THING,), environ) == jars
    assert (jars / "thing-1.0.jar").read_bytes() == CONTENT

    unreachable = {**environ, "LOGSTATE_MAVEN_URL": (tmp_path / "nowhere").as_uri()}
    assert jar_set("thing", (THING,), unreachable) == jars


def test_a_jar_of_another_set_is_not_downloaded_again(
    repository: Repository, environ: dict[str, str]
) -> None:
    old, new = jar("old"), jar("new")
    for one in (old, new):
        repository.publish(one)
    jar_set("first", (old,), environ)
    repository.requests.clear()

    found = jar_set("second", (old, new), environ)

    assert repository.requests == ["new-1.0.jar"]
    assert (found / "old-1.0.jar").read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT, CONTENT[:10], None])
def test_a_directory_can_be_the_repository_and_keeps_its_files(
    content: bytes | None, environ: dict[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "a folder"
    path = root / THING.path
    path.parent.mkdir(parents=True)
    if content is not None:
        path.write_bytes(content)
    files = {**environ, "LOGSTATE_MAVEN_URL": root.as_uri()}

    if content == CONTENT:
        assert (jar_set("thing", (THING,), files) / "thing-1.0.jar").read_bytes() == CONTENT
    else:
        reason = "the file does not exist" if content is None else "found 10 bytes"
        with pytest.raises(BrokerError, match=rf"thing-1\.0\.jar.*{reason}"):
            jar_set("thing", (THING,), files)
    assert (path.read_bytes() if path.exists() else None) == content


def test_a_file_of_the_repository_that_cannot_be_read_is_an_error(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "files" / THING.path).mkdir(parents=True)
    files = {**environ, "LOGSTATE_MAVEN_URL": (tmp_path / "files").as_uri()}

    with pytest.raises(BrokerError, match=r"Could not download .*thing-1\.0\.jar"):
        jar_set("thing", (THING,), files)


def test_two_calls_at_once_get_the_same_complete_set(
    repository: Repository, environ: dict[str, str], tmp_path: Path
) -> None:
    repository.publish(THING)
    with ThreadPoolExecutor(2) as pool:
        racers = [pool.submit(jar_set, "thing", (THING,), environ) for _ in range(2)]
        first, second = (racer.result(PATIENCE_S) for racer in racers)

    assert first == second
    assert sorted(path.name for path in first.iterdir()) == ["MANIFEST", "thing-1.0.jar"]
    assert list((tmp_path / "cache").glob(".*.part")) == []
    assert len(repository.requests) == 1
