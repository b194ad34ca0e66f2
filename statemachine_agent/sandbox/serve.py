"""Run one service in this process (``python -m`` this module); must not know that there are others.

Prints one JSON line once it can be called, ``{"service", "port"}``, or ``{"service", "port", "error"}`` with exit
code 3 when it cannot start.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from .listener import Listener
from .notifications import Notifications
from .payments import Payments
from .policy import Policy
from .refunds import Refunds
from .service import Service

SERVICES: dict[str, type[Service]] = {kind.name: kind for kind in (Payments, Refunds, Policy, Notifications)}
CANNOT_START = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM (or, with ``--watch-stdin``, until standard input ends); returns only on failure."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: _end())
    # A Ctrl-C reaches every process of a terminal; a watched parent must be able to finish before its services go.
    signal.signal(signal.SIGINT, signal.SIG_IGN if options.watch_stdin else lambda number, frame: _end())
    try:
        listener = Listener(SERVICES[options.name](options.file), options.port)
    except (OSError, sqlite3.Error) as error:
        in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        _report(service=options.name, port=options.port, error="port_in_use" if in_use else str(error))
        return CANNOT_START
    if options.watch_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    _report(service=options.name, port=listener.server_port)
    listener.serve_forever()
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run one service of the sandbox on 127.0.0.1.")
    parser.add_argument("name", choices=sorted(SERVICES))
    parser.add_argument("--file", type=Path, required=True, help="SQLite file; created and seeded when new")
    parser.add_argument("--port", type=int, required=True, help="0 for any free port")
    parser.add_argument("--watch-stdin", action="store_true", help="end when standard input ends")
    return parser.parse_args(arguments)


def _report(**line: object) -> None:
    print(json.dumps(line), flush=True)


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    _end()


def _end() -> None:
    # At once, whatever the threads are doing: all that was acknowledged is committed, the rest may be lost.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
