"""The service with two instances, on brokers in memory."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from fastapi.testclient import TestClient

from logstate import Application, Serving
from logstate.testing import FakeCluster

app = import_module("examples.08_service.app")
SHOWN = "of all instances"
PATIENCE = timedelta(minutes=3)


def test_an_instance_answers_and_says_how_it_is(tmp_path: Path) -> None:
    cluster = FakeCluster({"orders": 2})
    for amount in (5, 7):
        cluster.produce("orders", b"ada", struct.pack(">q", amount), partition=0, timestamp=1)
    made = Application(
        app.topology(),
        application_id="spending",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=cluster,
        serve=Serving(advertised="http://here:1/state", token=SHOWN),
    )
    with ExitStack() as stack:
        client = stack.enter_context(TestClient(app.service(made)))
        made.wait_until_running(PATIENCE)
        store = made.remote_store("spend", at_least={"orders-0": 2}, timeout=PATIENCE)
        row = store.get("ada", partition=0)
        assert row.value == 12
        assert client.get("/spend/nobody").status_code == 404
        assert client.get("/state/ready").json()["ok"] is True
        assert client.get("/state/stores").status_code == 401
        token = {"Authorization": f"Bearer {SHOWN}"}
        assert client.get("/state/stores", headers=token).json()["stores"][0]["name"] == "spend"
