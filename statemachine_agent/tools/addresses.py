"""Which addresses lie in the open network, and how a host stands in a list of the settings.

It must not know how a name is looked up, nor who connects.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from contextlib import suppress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: networks that lead elsewhere than they seem to, or that not every Python knows to be no part of the open network
_ODD = tuple(
    (ipaddress.ip_network(network), what)
    for network, what in (
        ("::ffff:0:0/96", "an IPv4 address in an IPv6 one"),
        ("::/96", "an IPv4 address in an IPv6 one"),
        ("64:ff9b::/96", "an address behind NAT64"),
        ("64:ff9b:1::/48", "an address behind NAT64"),
        ("2002::/16", "an address behind 6to4"),
        ("2001::/32", "an address behind Teredo"),
        ("fec0::/10", "private"),
        ("100.64.0.0/10", "an address of the provider's own network"),
        ("192.0.0.0/24", "reserved"),
    )
)


def parsed(text: str) -> Address | None:
    """The address that `text` is, in its usual spelling; None for a name, and for any other spelling."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def trouble(address: Address) -> str | None:
    """What is wrong with an address of the open network; None where nothing is."""
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    for network, what in _ODD:
        if address.version == network.version and address in network:
            return what
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address.is_global and not address.is_reserved:
        return None
    return "private" if address.is_private else "reserved"


def is_listed(host: str, port: int, entries: Iterable[str]) -> bool:
    """True where the host, as an address on the wire writes it, stands in the list as `name` or `name:port`."""
    shown = bracketed(host)
    return bool({host, shown, f"{shown}:{port}"} & {_on_the_wire(entry) for entry in entries})


def bracketed(host: str) -> str:
    """The host as it stands in front of a port."""
    return f"[{host}]" if ":" in host else host


def _on_the_wire(entry: str) -> str:
    """An entry in small ASCII letters; a name in other letters as the name service knows it."""
    if entry.isascii():
        return entry.lower()
    import httpx  # noqa: PLC0415  names in other letters only

    with suppress(httpx.InvalidURL):
        url = httpx.URL(f"//{entry}")
        return url.raw_host.decode() + (f":{url.port}" if url.port is not None else "")
    return entry
