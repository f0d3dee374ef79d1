"""Queries over HTTP: an ASGI application, its server, and the client for stores of all instances.

Starlette, uvicorn and httpx are imported only here (the extra ``http``).

Imports directory and queries, and metrics and plan for the status. `query_handler` checks the
ownership of a partition at the read itself, `wire` encodes the keys and values of a request,
`remote_store` sends it, `asgi` and `server` serve it. Start with `query_handler`.
"""
