"""A service of several instances: whichever is asked answers for every customer.

orders (by customer) ── sum of the amounts (store: spend)
                                    │
GET /spend/ada  ── the instance that has ada's partition, over HTTP where that is another one

GET /state/...  ── what logstate itself answers: health, stores, figures (docs/queries.md)
"""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse

from logstate import Application, Serving, StoreUnavailableError, StreamsBuilder, Topology


def topology(orders: str = "orders") -> Topology:
    builder = StreamsBuilder()
    by_customer = builder.stream(orders, key=str, value=int).group_by_key()
    by_customer.aggregate(int, lambda _, amount, total: total + amount, store="spend", value=int)
    return builder.build()


def service(app: Application) -> FastAPI:
    """The web application around an instance, which starts and ends with it."""

    @asynccontextmanager
    async def lifespan(_service: FastAPI) -> AsyncIterator[None]:
        async with app:
            yield

    web = FastAPI(lifespan=lifespan)
    app.mount_in(web, "/state")  # and shows its paths at /docs

    @web.get("/spend/{customer}")
    async def spend(customer: str) -> Any:
        store = app.async_remote_store("spend", key=str, value=int, timeout=timedelta(seconds=5))
        try:
            found = await store.answer("get", customer)
        except StoreUnavailableError as exc:  # nobody has it now, a rebalance that takes long
            return JSONResponse({"reason": str(exc)}, 503)
        if found.value is None:
            raise HTTPException(404, f"{customer} has ordered nothing")
        return {"spend": found.value.value, "from": found.host}

    return web


def instance(bootstrap: str, state_dir: str, port: int, orders: str, name: str) -> Application:
    return Application(
        topology(orders),
        application_id=name,
        bootstrap=bootstrap,
        state_dir=state_dir,
        serve=Serving(
            advertised=f"http://127.0.0.1:{port}/state", token=os.environ.get("SERVICE_TOKEN", "")
        ),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("state_dir")
    parser.add_argument("--port", type=int, default=8_000)
    parser.add_argument("--orders", default="orders")
    parser.add_argument("--name", default="spending")
    told = parser.parse_args()
    made = instance(told.bootstrap, told.state_dir, told.port, told.orders, told.name)
    # On SIGTERM the server ends the lifespan, and with it the application: all is committed.
    uvicorn.run(service(made), host="127.0.0.1", port=told.port, log_level="warning")
