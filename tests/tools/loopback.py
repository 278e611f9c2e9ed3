"""A server on the loopback that stands in for a vendor's: what it answers is said by whoever makes it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

# A text, and its media type.
Answer = tuple[str, str]
JSON, EVENTS = "application/json", "text/event-stream"


class Loopback(ABC):
    """Answers for as long as a block lasts: what is posted by `answer`, any other question by `listing`."""

    listing = "{}"

    def __init__(self) -> None:
        model = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                self.reply(*model.answer(self.path, body))

            def do_GET(self) -> None:
                self.reply(model.listing, JSON)

            def do_HEAD(self) -> None:
                self.reply("", JSON)

            def reply(self, text: str, kind: str) -> None:
                content = text.encode()
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @abstractmethod
    def answer(self, path: str, body: bytes) -> Answer:
        """Return what is said to a request; it may come in any thread."""

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
