"""Votes, counted, and a web server that answers from the state while it is being computed.

    votes (by voter) ── latest vote per voter ── group by candidate ── count (store: tally)
                                                                          │
    GET /tally/ada  ── a thread of the web server ──────────────── reads ─┘

The server is Python's own, so that the example needs nothing else. In FastAPI the body of `answer`
would be a path function, and `app.start()` would go into its lifespan.
"""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from logstate import Application, LogstateError, StreamsBuilder, Topology


def topology() -> Topology:
    builder = StreamsBuilder()
    votes = builder.table("votes", key=str, value=str, store="latest-votes")
    by_candidate = votes.group_by(
        lambda voter, candidate: (candidate, voter), name="by-candidate", key=str, value=str
    )
    # Whoever votes again is taken away from one candidate and added to the other.
    by_candidate.count(store="tally")
    return builder.build()


def answer(tally: Any, path: str) -> tuple[HTTPStatus, object]:
    """What the server says. ``tally`` is the store: committed rows only, readable by any thread."""
    match path.strip("/").split("/"):
        case ["tally"]:
            return HTTPStatus.OK, {candidate: row.value for candidate, row in tally.all()}
        case ["tally", candidate]:
            try:
                row = tally.get(candidate)
            except LogstateError as elsewhere:  # another instance has it, or it is being restored
                return HTTPStatus.SERVICE_UNAVAILABLE, {"reason": str(elsewhere)}
            return HTTPStatus.OK, {candidate: 0 if row is None else row.value}
    return HTTPStatus.NOT_FOUND, {"try": ["/tally", "/tally/CANDIDATE"]}


def web_server(tally: Any, port: int) -> ThreadingHTTPServer:
    """A server whose every request runs in a thread of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(tally, self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_details: object) -> None:
            """Quiet: the answers speak for themselves."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def serve(app: Application, port: int = 8_080) -> None:
    server = web_server(app.store("tally"), port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}/tally")


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="tally", once_running=serve)
