"""Where a name may lead: a host of the list whose name leads into a private network is not asked, however that is written."""

from __future__ import annotations

import asyncio
from typing import Any

import httpcore
import pytest
from unit.tools.making import Clock, answering, attempts_of, on_loop, outcome_of, reach, read_tool, write_tool

from statemachine_agent.tools.addresses import is_listed, parsed, trouble
from statemachine_agent.tools.outcome import Blocked, Failed, Ok
from statemachine_agent.tools.toolbox import Toolbox

DESK = "desk.example"

#: what a name may lead to, and what is said of it
INSIDE = [
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("::1", "loopback"),
    ("0.0.0.0", "unspecified"),  # noqa: S104  nothing is bound
    ("::", "unspecified"),
    ("10.1.2.3", "private"),
    ("172.16.0.1", "private"),
    ("192.168.1.1", "private"),
    ("192.0.2.1", "private"),
    ("fc00::1", "private"),
    ("fd12:3456::1", "private"),
    ("fec0::1", "private"),
    ("2001:db8::1", "private"),
    ("169.254.169.254", "link-local"),
    ("fe80::1", "link-local"),
    ("fe80::1%1", "link-local"),
    ("224.0.0.1", "multicast"),
    ("ff02::1", "multicast"),
    ("240.0.0.1", "private"),
    ("255.255.255.255", "private"),
    ("100.64.0.1", "an address of the provider's own network"),
    ("192.0.0.8", "reserved"),
    ("::ffff:127.0.0.1", "an IPv4 address in an IPv6 one"),
    ("::ffff:8.8.8.8", "an IPv4 address in an IPv6 one"),
    ("::7f00:1", "an IPv4 address in an IPv6 one"),
    ("64:ff9b::7f00:1", "an address behind NAT64"),
    ("64:ff9b::a9fe:a9fe", "an address behind NAT64"),
    ("64:ff9b:1::1", "an address behind NAT64"),
    ("2002:7f00:1::", "an address behind 6to4"),
    ("2001:0:7f00:1::", "an address behind Teredo"),
]


@pytest.mark.parametrize(("address", "what"), INSIDE)
@on_loop
async def test_a_name_that_leads_inside_is_not_asked(address: str, what: str) -> None:
    """Nothing is connected: the port is one on which somebody listens."""
    async with answering() as service:
        port = service.url.rpartition(":")[2]
        clock = Clock()
        clock.names[DESK] = [[address]]
        settings = reach(hosts=frozenset({DESK}))
        tool = write_tool(f"http://{DESK}:{port}/", retry={"unsent": 3})
        (attempt,) = await attempts_of(tool, {}, settings, clock=clock, key="w:1")
        assert service.requests == []
    told = f"http://{DESK}:{port}: {DESK} leads to {address} ({what}); if that is meant, list it under `private_hosts`"
    assert attempt.outcome == Blocked("address_not_allowed", told)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001::1"])
def test_the_open_network_is_open(address: str) -> None:
    found = parsed(address)
    assert found is not None and trouble(found) is None


@on_loop
async def test_one_address_inside_is_enough_to_trust_none() -> None:
    clock = Clock()
    clock.names[DESK] = [["8.8.8.8", "10.0.0.1"]]
    found = await outcome_of(read_tool(f"https://{DESK}"), {}, reach(hosts=frozenset({DESK})), clock=clock)
    assert isinstance(found, Failed) and found.error_class == "address_not_allowed"
    assert not found.retryable


@on_loop
async def test_a_name_that_is_meant_to_lead_inside_says_so_in_the_settings() -> None:
    async with answering() as service:
        port = service.url.rpartition(":")[2]
        clock = Clock()
        clock.names[DESK] = [["127.0.0.1"]]

        async def asked(*private: str) -> bool:
            settings = reach(hosts=frozenset({DESK}), private_hosts=frozenset(private))
            found = await outcome_of(read_tool(f"http://{DESK}:{port}/"), {}, settings, clock=clock)
            assert isinstance(found, Ok) or (isinstance(found, Failed) and found.error_class == "address_not_allowed")
            return isinstance(found, Ok)

        assert await asked(DESK)
        assert await asked(DESK.upper())
        assert await asked(f"{DESK}:{port}")
        assert service.requests[0].headers["host"] == f"{DESK}:{port}"  # the name, not where it led
        for private in ((), ("127.0.0.1",), (f"{DESK}:1",), ("example",), (f"{DESK}.",), ("*",)):
            assert not await asked(*private), private
        assert len(service.requests) == 3


@on_loop
async def test_an_address_that_the_list_of_hosts_names_itself_is_meant() -> None:
    """No name service can lead it elsewhere."""
    async with answering() as service:
        settings = reach(hosts=frozenset({"127.0.0.1"}), private_hosts=frozenset())
        assert isinstance(await outcome_of(read_tool(service.url), {}, settings), Ok)


@on_loop
async def test_to_stand_among_private_hosts_is_not_to_be_listed() -> None:
    settings = reach(hosts=frozenset(), private_hosts=frozenset({DESK}))
    found = await outcome_of(write_tool(f"https://{DESK}"), {}, settings, key="w:1")
    assert isinstance(found, Blocked) and found.reason == "host_not_allowed"


class Sockets:
    """Stands for the sockets: notes where somebody wants to go, and lets nobody."""

    def __init__(self) -> None:
        self.wanted: list[tuple[str, int]] = []

    async def __call__(self, _backend: object, host: str, port: int, *_: object) -> Any:
        self.wanted.append((host, port))
        if host == "9.9.9.9":
            await asyncio.Event().wait()
        raise httpcore.ConnectError("not today")


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Sockets:
    found = Sockets()

    async def connect(*args: Any, **_: Any) -> Any:
        return await found(*args)

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect)
    return found


@on_loop
async def test_what_is_connected_to_is_the_address_that_was_judged(sockets: Sockets) -> None:
    """A name that leads outside when it is judged, and inside a moment later, leads nobody inside."""
    clock = Clock()
    clock.names[DESK] = [["8.8.8.8"], ["127.0.0.1"]]
    toolbox = Toolbox(reach(hosts=frozenset({DESK})), clock)
    outcomes = []
    for _ in range(2):
        (attempt,) = await toolbox.call(read_tool(f"https://{DESK}", retry={}), {}, seconds=60)
        outcomes.append(attempt.outcome)
    await toolbox.close()
    assert sockets.wanted == [("8.8.8.8", 443)]
    assert clock.looked_up == [DESK, DESK]  # once for each connection
    assert [o.error_class for o in outcomes if isinstance(o, Failed)] == ["unavailable", "address_not_allowed"]


@on_loop
async def test_addresses_of_a_name_are_tried_in_their_order(sockets: Sockets, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says nothing holds the others up for a while, and no longer."""
    monkeypatch.setattr("statemachine_agent.tools.network._TURN", 0.01)
    clock = Clock()
    clock.names[DESK] = [["9.9.9.9", "2606:4700:4700::1111", "8.8.8.8"]]
    found = await outcome_of(write_tool(f"https://{DESK}"), {}, reach(hosts=frozenset({DESK})), clock=clock, key="w:1")
    assert found == Blocked("unavailable", f"https://{DESK}: ConnectError: not today")
    assert sockets.wanted[:3] == [("9.9.9.9", 443), ("2606:4700:4700::1111", 443), ("8.8.8.8", 443)]


@on_loop
async def test_a_name_without_an_address_was_sent_nothing() -> None:
    clock = Clock()
    clock.names[DESK] = [[]]
    found = await outcome_of(write_tool(f"https://{DESK}"), {}, reach(hosts=frozenset({DESK})), clock=clock, key="w:1")
    assert found == Blocked("unavailable", f"https://{DESK}: ConnectError: {DESK} has no address")


SPELLINGS = ["2130706433", "0x7f000001", "017700000001", "127.1", "0177.0.0.1", "0x7f.0.0.1", "127.0.0.1."]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("spelling", SPELLINGS)
@on_loop
async def test_no_other_spelling_of_an_address_leads_anywhere(spelling: str, listed: bool) -> None:
    """Not in the list it is another host, and in the list it is a name that leads inside."""
    async with answering() as service:
        port = service.url.rpartition(":")[2]
        settings = reach({"URL": f"http://{spelling}:{port}"}, hosts=frozenset({spelling if listed else "127.0.0.1"}))
        clock = Clock()
        clock.names[spelling] = [["127.0.0.1"]]  # as most systems read them
        found = await outcome_of(write_tool("${URL}/"), {}, settings, clock=clock, key="w:1")
        assert service.requests == []
    assert isinstance(found, Blocked)
    assert found.reason in (("address_not_allowed",) if listed else ("host_not_allowed",)) + ("invalid_argument",)


@pytest.mark.parametrize(
    "host",
    ["１２７.0.0.1", "①②⑦.0.0.1", "localhost.", "LOCALHOST%00", "local\u00adhost", "localhos\u212at"],
)
@on_loop
async def test_letters_that_only_look_alike_make_no_host_of_the_list(host: str) -> None:
    async with answering() as service:
        port = service.url.rpartition(":")[2]
        found = await outcome_of(write_tool("${URL}/"), {}, reach({"URL": f"http://{host}:{port}"}), key="w:1")
        assert service.requests == []
    assert isinstance(found, Blocked) and found.reason in ("host_not_allowed", "invalid_argument")


@on_loop
async def test_the_host_that_is_judged_is_the_one_that_goes_on_the_wire() -> None:
    found = await outcome_of(write_tool("${URL}/"), {}, reach({"URL": "https://10。0。0。1"}), key="w:1")
    assert isinstance(found, Blocked)
    assert found.detail.endswith("the host 10.0.0.1:443 is not in the list; add it to `hosts` in the settings")


def test_a_list_may_name_a_host_as_people_write_it() -> None:
    assert is_listed("xn--bcher-kva.example", 443, ["Bücher.example"])
    assert is_listed("xn--bcher-kva.example", 8443, ["bücher.example:8443"])
    assert is_listed("::1", 80, ["[::1]:80"]) and is_listed("::1", 80, ["::1"])
    assert not is_listed("xn--bcher-kva.example", 443, ["bücher.example:8443", "bucher.example", "ü..", "\u200d"])
    assert not is_listed("::1", 80, ["[::1]:81", "[0:0:0:0:0:0:0:1]", ""])


@on_loop
async def test_a_name_of_a_user_before_the_host_is_refused_where_the_host_is_in_the_list() -> None:
    async with answering() as service:
        url = service.url.replace("://", "://me:secret@")
        found = await outcome_of(write_tool("${URL}/"), {}, reach({"URL": url}), key="w:1")
        assert service.requests == []
    assert isinstance(found, Blocked) and found.reason == "host_not_allowed"
    assert "secret" not in found.detail and "me" not in found.detail.split()


class Hanging(Clock):
    """A name service that says nothing."""

    async def addresses(self, host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return await super().addresses(host, port)


@on_loop
async def test_a_name_service_that_says_nothing_does_not_outlive_the_timeout() -> None:
    tool = write_tool(f"https://{DESK}", timeout="50ms", retry={})
    found = await outcome_of(tool, {}, reach(hosts=frozenset({DESK})), clock=Hanging(), key="w:1")
    assert found == Blocked("timeout", f"https://{DESK}: no answer within 0.05 s")
