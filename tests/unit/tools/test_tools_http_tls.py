"""TLS: whoever is not on this machine is asked over it, and shows a certificate for the name that was asked for."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from unit.tools.making import Clock, answering, on_loop, outcome_of, reach, read_tool, write_tool

from statemachine_agent.tools.outcome import Blocked, Failed, Ok
from statemachine_agent.tools.request import Reach

DESK = "desk.example"


@dataclass(frozen=True)
class Authority:
    """Signs certificates, and lies in a file for those who trust it."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def file(self) -> str:
        return str(self.folder / "authority.pem")

    def context(self, name: str, *, own: bool = False, late: bool = False) -> ssl.SSLContext:
        """What a service shows: a certificate for `name`, signed by the authority or by itself, or no longer good."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = certificate(name, key, None if own else self, late=late)
        path = self.folder / f"{name}-{own}-{late}.pem"
        path.write_bytes(
            made.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def certificate(name: str, key: Any, by: Authority | None, *, late: bool = False, ca: bool = False) -> x509.Certificate:
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    day = dt.timedelta(days=1)
    now = dt.datetime.now(dt.UTC)  # the library under TLS knows no other clock
    try:
        other: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        other = x509.DNSName(name)
    return (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(by.certificate.subject if by else called)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * day)
        .not_valid_after(now - day if late else now + day)
        .add_extension(x509.SubjectAlternativeName([other]), critical=False)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(by.key if by else key, hashes.SHA256())
    )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    made = certificate("authority", key, None, ca=True)
    (folder / "authority.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return Authority(folder, key, made)


def reached(ca_file: str | None, **more: Any) -> Reach:
    return reach(hosts=frozenset({DESK, "127.0.0.1"}), private_hosts=frozenset({DESK}), ca_file=ca_file, **more)


def clock() -> Clock:
    found = Clock()
    found.names[DESK] = [["127.0.0.1"]]
    return found


@on_loop
async def test_the_name_that_was_asked_for_is_the_name_on_the_certificate(authority: Authority) -> None:
    """Though it is connected to an address: the service is told the name before and within TLS."""
    told: list[str | None] = []
    context = authority.context(DESK)
    context.sni_callback = lambda _line, name, _context: told.append(name)
    async with answering(tls=context) as service:
        port = service.url.rpartition(":")[2]
        tool = read_tool(f"https://{DESK}:{port}/")
        assert isinstance(await outcome_of(tool, {}, reached(authority.file), clock=clock()), Ok)
        assert service.requests[0].headers["host"] == f"{DESK}:{port}"
    assert told == [DESK]


@pytest.mark.parametrize(
    ("name", "made", "trusted", "host"),
    [
        (DESK, {"own": True}, True, DESK),  # signed by itself
        (DESK, {}, False, DESK),  # by an authority that nobody listed
        ("other.example", {}, True, DESK),  # for somebody else
        ("127.0.0.1", {}, True, DESK),  # for where the name leads
        (DESK, {}, True, "127.0.0.1"),  # for a name, asked by its address
        (DESK, {"late": True}, True, DESK),
    ],
)
@on_loop
async def test_a_certificate_that_is_not_good_for_the_host_sends_nothing(
    authority: Authority, name: str, made: dict[str, bool], trusted: bool, host: str
) -> None:
    async with answering(tls=authority.context(name, **made)) as service:
        port = service.url.rpartition(":")[2]
        settings = reached(authority.file if trusted else None)
        tool = write_tool(f"https://{host}:{port}/", retry={})
        found = await outcome_of(tool, {}, settings, clock=clock(), key="w:1")
        assert service.requests == []
    assert isinstance(found, Blocked) and found.reason == "unavailable"
    assert "CERTIFICATE_VERIFY_FAILED" in found.detail


@on_loop
async def test_an_authority_of_the_environment_is_not_trusted(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority.file)
    async with answering(tls=authority.context(DESK)) as service:
        port = service.url.rpartition(":")[2]
        found = await outcome_of(read_tool(f"https://{DESK}:{port}/"), {}, reached(None), clock=clock())
        assert isinstance(found, Failed) and "CERTIFICATE_VERIFY_FAILED" in found.detail


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
@on_loop
async def test_a_file_of_authorities_that_cannot_be_read_is_told(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "authorities.pem"
    if content is not None:
        path.write_bytes(content)
    found = await outcome_of(write_tool("https://127.0.0.1:1/"), {}, reached(str(path)), key="w:1")
    assert isinstance(found, Blocked) and found.reason == "not_configured"
    assert found.detail.startswith("the certificates of `ca_file` cannot be read: ")


@pytest.mark.parametrize(
    ("host", "leads_to"),
    [
        ("10.0.0.1", None),
        ("8.8.8.8", None),
        ("169.254.169.254", None),
        ("0.0.0.0", None),  # noqa: S104  nothing is bound
        ("[fd00::1]", None),
        ("[::ffff:127.0.0.1]", None),
        (DESK, "8.8.8.8"),
        (DESK, "10.0.0.1"),
    ],
)
@on_loop
async def test_without_tls_nobody_is_asked_but_this_machine(host: str, leads_to: str | None) -> None:
    """Not even a host that the settings list for both: who stands between would read and write along."""
    found = Clock()
    found.names[DESK] = [[leads_to or ""]]
    listed = frozenset({host})
    settings = reach({"URL": f"http://{host}"}, hosts=listed, private_hosts=listed)
    outcome = await outcome_of(write_tool("${URL}/", retry={"unsent": 3}), {}, settings, clock=found, key="w:1")
    assert isinstance(outcome, Blocked) and outcome.reason == "tls_required", outcome
    assert outcome.detail.endswith(f"{host}:80 is not on this machine, so it is only asked over TLS; write https://")


@on_loop
async def test_a_service_that_knows_no_tls_is_asked_nothing_over_it(authority: Authority) -> None:
    async with answering(at_once=b"HTTP/1.1 400 X\r\n\r\n") as service:
        port = service.url.rpartition(":")[2]
        tool = write_tool(f"https://127.0.0.1:{port}/", retry={})
        found = await outcome_of(tool, {}, reached(authority.file), key="w:1")
    assert isinstance(found, Blocked) and found.reason == "unavailable"
    assert service.requests == []
