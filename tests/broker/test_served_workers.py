"""Instances with worker processes that answer each other over TLS, on the real broker."""

from __future__ import annotations

import datetime
import ipaddress
import random
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from logstate import Application, Serving
from logstate.contracts.errors import StoreUnavailableError
from logstate.http.remote_store import RemoteStore
from tests.broker.counting_app import topology
from tests.broker.counting_scenario import USERS, running
from tests.broker.group_settings import expect_heartbeats_within
from tests.patience import PATIENCE_S, until

TOKEN = "a long random text"


def one_by_one(store: RemoteStore) -> dict[str, int]:
    try:
        found = {f"user-{n}": store.get(f"user-{n}") for n in range(USERS)}
    except StoreUnavailableError:  # tasks are on their way
        return {}
    return {user: row.value for user, row in found.items() if row is not None}


def certificate(path: Path) -> Serving:
    """A key and a certificate for this machine's loopback, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "logstate test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (path / "tls.crt").write_bytes(made.public_bytes(pem))
    (path / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Serving(
        "127.0.0.1:0",
        token=TOKEN,
        certificate=path / "tls.crt",
        private_key=path / "tls.key",
        authority=path / "tls.crt",
    )


def test_every_key_is_answered_by_every_instance_whichever_process_has_it(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    serving = certificate(tmp_path)
    with running(bootstrap, unique("served"), tmp_path) as scenario, ExitStack() as stack:
        expect_heartbeats_within(bootstrap, scenario.prefix)
        scenario.send(500, random.Random(6))
        users = Counter(user for user, _ in scenario.sent)

        def start(name: str, workers: int) -> Application:
            app = Application(
                topology(scenario.prefix),
                application_id=scenario.prefix,
                bootstrap=bootstrap,
                state_dir=tmp_path / name,
                workers=workers,
                serve=replace(serving),
            )
            return stack.enter_context(app)

        apps = [start("processes", 2), start("thread", 1)]
        scenario.outputs("per-user", 500)
        for app in apps:
            until(lambda app=app: len(app.metadata_for_store("per-user")) == 2)
            store = app.remote_store("per-user")
            until(lambda store=store: one_by_one(store) == users)  # type: ignore[misc]
            assert {user: row.value for user, row in store.all()} == users
        trusted = ssl.create_default_context(cafile=str(serving.authority))
        host = apps[0].all_instances()[0].host
        assert host.startswith("https://")
        user, count = users.most_common(1)[0]
        url = f"{host}/stores/per-user/{user}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.get(url, headers=headers, verify=trusted, timeout=PATIENCE_S)
        assert answer.json()["row"]["value"] == count
        assert httpx.get(url, verify=trusted, timeout=PATIENCE_S).status_code == 401
        asked = {"headers": headers, "verify": trusted, "timeout": PATIENCE_S}
        topics = httpx.get(f"{host}/topics", **asked).json()["topics"]
        assert {one["kind"] for one in topics} >= {"input", "output", "changelog"}
        for one in topics:  # their last offsets are markers of transactions
            read = httpx.get(f"{host}/topics/{one['name']}?limit=3", **asked).json()
            assert (read["is_complete"], len(read["records"])) == (True, 3), read
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(url, headers=headers, timeout=PATIENCE_S)
