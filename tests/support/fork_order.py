"""What a fork server is told, and how; light, since `support/relay.py` imports it in a new interpreter each time."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any


def order(words: Sequence[str], folder: str, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """What `python WORDS` is to be in that folder; nothing for options that only a new interpreter understands."""
    is_safe = words[:1] == ["-P"]
    first, *rest = words[is_safe:] or [""]
    is_script = first.endswith(".py")
    if not is_script and (first not in {"-m", "-c"} or not rest):
        return None
    here = {"-m": folder, "-c": ""}.get(first, os.path.dirname(os.path.realpath(first)))  # noqa: PTH120
    what = first if is_script else rest.pop(0)
    return {
        "kind": "script" if is_script else first,
        "what": what,
        "argv": [first, *rest],
        "path": [*([] if is_safe else [here]), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))],
        "cwd": folder,
        "environ": dict(environ),
        "pass_fds": [],
        "new_session": False,
        "ends_with_asker": False,
    }


def asked(place: str, told: Mapping[str, Any], descriptors: Sequence[int]) -> tuple[socket.socket, int]:
    """The new process, and where the end of it will be told."""
    news = socket.socket(socket.AF_UNIX)
    try:
        news.connect(place)
        body = json.dumps(told).encode()
        socket.send_fds(news, [len(body).to_bytes(4, "big")], descriptors)
        news.sendall(body)
        process = int.from_bytes(news.recv(8, socket.MSG_WAITALL), "big")
        assert process, "the fork server is gone"
    except BaseException:
        news.close()
        raise
    return news, process


def stay(server: socket.socket) -> bool:
    """Whether the server at the other end has noted that it is to stay until this end is closed."""
    body = json.dumps({"kind": "stay"}).encode()
    server.sendall(len(body).to_bytes(4, "big") + body)
    return server.recv(5, socket.MSG_WAITALL) == b"ready"
