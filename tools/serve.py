"""Serve the rendered pages on this machine only.

    python tools/serve.py FOLDER [PORT]

The in-page lab needs it: a browser runs no Python from a page opened as a file.
"""

from __future__ import annotations

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Pages(SimpleHTTPRequestHandler):
    """Files, with the types that browsers insist on and no line per request."""

    extensions_map = {  # noqa: RUF012
        **SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, format: str, *args: object) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")  # a rebuilt page shows at once
        super().end_headers()


class Server(ThreadingHTTPServer):
    """One that says nothing of readers who turn away while a page is sent."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of ``folder`` on the loopback address; port 0 is any free one."""
    return Server(("127.0.0.1", port), partial(Pages, directory=str(folder)))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    folder, given = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) == 3 else "8000"
    if not (given.isdecimal() and 0 < int(given) < 1 << 16):
        raise SystemExit(f"{given} is no port: name one of 1 to 65535")
    port = int(given)
    if not (folder / "index.html").exists():
        raise SystemExit(f"{folder} has no pages yet: run 'make book' or 'make site' first")
    try:
        pages = server(folder, port)
    except OSError as error:
        raise SystemExit(
            f"cannot serve on port {port} ({error.strerror}): name another, "
            f"python tools/serve.py {folder} 8001"
        ) from None
    print(f"The book is at http://127.0.0.1:{port}/ until you press Ctrl-C.", flush=True)
    try:
        pages.serve_forever()
    except KeyboardInterrupt:
        print()
