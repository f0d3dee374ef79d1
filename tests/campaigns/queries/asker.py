"""Asks random instances for random keys, in threads, and keeps every answer."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import httpx

from logstate import Application
from tests.performance.events import key_name

#: a request that takes longer hangs
HANGS_S = 20.0
_PAUSE_S = 0.002


class Answer(NamedTuple):
    """One query, and what came of it."""

    key: str
    asked_s: float
    took_ms: float
    status: int
    #: what the store has; None where it has nothing, or where there was no answer
    count: int | None
    #: ``topic-partition`` -> the first input offset that the answer lacks
    positions: Mapping[str, int]
    #: who answered, by its address; that of another than was asked: it was routed
    host: str
    asked: str
    #: why there is no answer
    reason: str


class Asker:
    """So many threads; ``addresses`` may change at any time."""

    def __init__(self, keys: int, threads: int) -> None:
        self.addresses: tuple[str, ...] = ()
        self._keys = keys
        self.answers: list[Answer] = []
        self._is_stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """No more; waits for the answers that are on their way."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join(2 * HANGS_S)

    def wait_for(self, answers: int) -> None:
        """Until there are so many more."""
        wanted = len(self.answers) + answers
        while len(self.answers) < wanted:
            time.sleep(_PAUSE_S)

    def _run(self, number: int) -> None:
        rng = random.Random(number)
        with httpx.Client(trust_env=False, timeout=HANGS_S) as client:
            while not self._is_stopping.is_set():
                if not self.addresses:
                    time.sleep(_PAUSE_S)
                    continue
                address = rng.choice(self.addresses)
                self.answers.append(_ask(client, address, key_name(rng.randrange(self._keys))))


def asked_here(app: Application, keys: int, queries: int) -> list[Answer]:
    """What an instance in this process is answered, by all instances, one query at a time."""
    store, rng = app.remote_store("counts"), random.Random(1)
    own = tuple(app.transactional_ids)
    (here,) = {one.host for one in app.all_instances() if one.members == own}
    answers = []
    for _ in range(queries):
        key, asked_s, began_s = key_name(rng.randrange(keys)), time.time(), time.perf_counter()
        found = store.answer("get", key)
        took_ms = 1_000 * (time.perf_counter() - began_s)
        count = None if found.value is None else found.value.value.count
        status = 404 if count is None else 200
        answers.append(
            Answer(key, asked_s, took_ms, status, count, found.positions, found.host, here, "")
        )
    return answers


def _ask(client: httpx.Client, address: str, key: str) -> Answer:
    asked_s, began_s = time.time(), time.perf_counter()
    status, found = 0, dict[str, Any]()
    try:
        response = client.get(f"{address}/stores/counts/{key}")
        status, found = response.status_code, _content(response)
    except httpx.TransportError as exc:  # its process is gone
        found = {"error": f"{type(exc).__name__}: {exc}"}
        time.sleep(_PAUSE_S)
    row = found.get("row") or {}
    value = row.get("value") or {}
    return Answer(
        key,
        asked_s,
        1_000 * (time.perf_counter() - began_s),
        status,
        value.get("count"),
        found.get("positions", {}),
        found.get("host", ""),
        address,
        found.get("error", ""),
    )


def _content(response: httpx.Response) -> dict[str, Any]:
    """Of an answer; what is no JSON says nothing of why."""
    try:
        return cast("dict[str, Any]", response.json())
    except ValueError:
        return {"status": response.text[:200]}
