"""HTTP/1.1 on a loopback port in front of a service; must not know what the service does."""

from __future__ import annotations

import socketserver
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from .exchange import Answer, Problem, Request
from .service import Service

HOST = "127.0.0.1"
LARGEST_BODY = 1 << 20
LARGEST_DISCARD = 8 << 20


class Listener(ThreadingHTTPServer):
    """A service on a port (0: any free one, see ``server_port``); a thread for each connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, service: Service, port: int) -> None:
        self.service = service
        super().__init__((HOST, port), Exchange)

    def server_bind(self) -> None:
        """Bind without the name lookup that the standard library does here, which may ask the network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that went away is no error of the service; anything else is reported on standard error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Exchange(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    # Even a request line that says no version is answered with a status line and headers.
    default_request_version = "HTTP/1.0"
    # Buffered and without Nagle's algorithm: headers and body leave together and at once.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: Listener

    def exchange(self) -> None:
        """Read one request, have it served, send the answer or close the connection without one."""
        raw, flaw = self._read_body()
        if raw is None:
            self.close_connection = True
            return
        path, _, query = self.path.partition("?")
        key = self.headers.get("Idempotency-Key")
        request = Request(self.command, self.path, path, dict(parse_qsl(query, keep_blank_values=True)), key, raw, flaw)
        answer = self.server.service.respond(request)
        if answer is None:
            self.close_connection = True
        else:
            self._send(answer, close=flaw is not None)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = exchange

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses by itself (a broken request line, an unknown method), as JSON."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            problem = Problem(405, "method_not_allowed", "no path here takes this method")
        else:
            problem = Problem(int(code), "bad_request", message or "send a valid HTTP/1.1 request")
        self._send(problem.answer(), close=True)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the requests are in the log of the service."""

    def _read_body(self) -> tuple[bytes | None, Problem | None]:
        """The body and what is wrong with it; None for a caller that left in the middle of it."""
        if "Transfer-Encoding" in self.headers:
            return b"", Problem(411, "length_required", "send the body in one piece with a Content-Length")
        announced = self.headers.get("Content-Length", "0")
        if not (announced.isascii() and announced.isdigit()):
            return b"", Problem(400, "bad_length", "Content-Length must be a number of bytes")
        # A number of more than 18 digits is too large whatever it is, and costly to convert.
        length = int(announced[:18]) if len(announced) <= 18 else LARGEST_DISCARD + 1
        if length > LARGEST_BODY:
            self._discard(min(length, LARGEST_DISCARD))
            return b"", Problem(413, "too_large", f"the body is larger than {LARGEST_BODY} bytes; send less")
        raw = self.rfile.read(length)
        return (raw if len(raw) == length else None), None

    def _discard(self, length: int) -> None:
        """Read bytes away: closing a connection with unread bytes could destroy the answer on its way."""
        while length > 0 and (piece := self.rfile.read(min(length, 1 << 16))):
            length -= len(piece)

    def _send(self, answer: Answer, close: bool) -> None:
        content = answer.content()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in answer.headers:
            self.send_header(name, value)
        if close:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
