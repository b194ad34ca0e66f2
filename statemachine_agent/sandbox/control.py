"""Backstage access to a running sandbox, for tests and demonstrations; must not be used to do the shop's work.

Nothing here is seen by ``log`` or hit by a fault. ``url`` is the address of one service, as in ``Sandbox.urls``.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, urlencode

SECONDS = 10.0

# An empty ProxyHandler: a proxy set in the environment has no business with 127.0.0.1.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ControlError(RuntimeError):
    """The service answered with an error; the text has its status and what it said."""


def set_fault(url: str, mode: str, times: int | None = 1, seconds: float | None = None, on: str = "write") -> None:
    """Make the next ``times`` requests (None: all, until cleared) meet a fault; ``faults`` lists the modes.

    ``on`` is "write" for POST or "read" for GET. ``seconds`` is the wait of the slow modes. Faults queue: this one
    comes after those already set.
    """
    _call("POST", f"{url}/_faults", {"mode": mode, "times": times, "seconds": seconds, "on": on})


def clear_faults(url: str) -> None:
    """Make the service behave from now on; requests that a slow mode keeps waiting go on at once."""
    _call("DELETE", f"{url}/_faults")


def log(url: str) -> list[dict[str, Any]]:
    """Every request the service has seen, oldest first; ``request_log.RequestLog.all`` describes the fields."""
    entries: list[dict[str, Any]] = _call("GET", f"{url}/_log")
    return entries


def refunds(url: str, order_id: str) -> list[dict[str, Any]]:
    """The refunds of an order, oldest first."""
    found: list[dict[str, Any]] = _call("GET", f"{url}/_admin/refunds?{urlencode({'order_id': order_id})}")["refunds"]
    return found


def messages(url: str, order_id: str) -> list[dict[str, Any]]:
    """The messages about an order, oldest first."""
    found: list[dict[str, Any]] = _call("GET", f"{url}/_admin/messages?{urlencode({'order_id': order_id})}")["messages"]
    return found


def settle(url: str, refund_id: str, status: str = "settled") -> dict[str, Any]:
    """Move a refund on to ``status``, as the bank would; returns the refund."""
    refund: dict[str, Any] = _call("POST", f"{url}/_admin/refunds/{quote(refund_id, safe='')}", {"status": status})
    return refund


def health(url: str) -> str:
    """The name of the service that answers at ``url``."""
    return str(_call("GET", f"{url}/_health")["service"])


def _call(method: str, url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with _opener.open(request, timeout=SECONDS) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read().decode(errors="replace")
        raise ControlError(f"{method} {url} was answered with {error.code}: {said}") from None
