"""Queries over HTTP: an ASGI application, its server, and the store of all instances together.

Starlette, uvicorn and httpx are imported here and nowhere else (the extra ``http``).

Imports directory and queries. `answers` checks who owns what at the read itself, `wire` is how
reads travel, `remote_store` asks, `asgi` and `server` answer. Start with `answers`.
"""
