"""Queries over HTTP: an ASGI application, its server, and the client for stores of all instances.

Starlette, uvicorn and httpx are imported only here (the extra ``http``).

Imports directory and queries. `query_handler` checks the ownership of a partition at the read
itself, `wire` encodes reads, `remote_store` sends them, `asgi` and `server` serve them. Start with
`query_handler`.
"""
