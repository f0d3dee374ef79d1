"""The web page of an instance: one document, which requests everything that it shows.

The folder ``web`` has its parts: the elements, the style, and the scripts, which are sent as one.
It contains no data, so it needs no token. Its security policy allows only scripts and styles with
the hashes of its own: inserted text, such as a key or an error, never runs as a script.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib import resources
from typing import NamedTuple

try:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("The page needs Starlette: pip install 'logstate[http]'.") from error

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
#: in the order in which they are run
_SCRIPTS = ("basics", "figures", "hour", "tables", "picture", "stores", "topics", "main")


class Page(NamedTuple):
    """The file, and the headers that are sent with it."""

    html: str
    headers: dict[str, str]


@functools.cache
def read_page() -> Page:
    """Return the page, read once."""
    html = _part("page.html")
    html = html.replace("/* page.css */", _part("page.css"))
    html = html.replace("/* scripts */", "\n".join(_part(f"{name}.js") for name in _SCRIPTS))
    allowed: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(html):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        allowed[kind].append(f"'sha256-{digest}'")
    policy = {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",  # its icon
        "script-src": " ".join(allowed["script"]),
        "style-src": " ".join(allowed["style"]),
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    headers = {
        "Content-Security-Policy": "; ".join(" ".join(rule) for rule in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    return Page(html, headers)


def _part(name: str) -> str:
    return resources.files("logstate.http").joinpath("web", name).read_text(encoding="utf-8")


async def page(_request: Request) -> Response:
    """Serve the page without a token."""
    found = read_page()
    return HTMLResponse(found.html, headers=found.headers)
