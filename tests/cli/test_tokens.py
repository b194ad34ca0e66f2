"""A task whose tools need access tokens, from the settings to its end, and nothing of a token in what it leaves behind."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from statemachine_agent.sandbox import Sandbox
from support.cli import Here
from support.refund import ROOT

SECRET, TOKEN = "s3cr3t-of-the-desk", "token-7f3a91cc"

SETTINGS = f"""
machines = [{str(ROOT / "machines" / "refund.yaml")!r}]
tools = ["manifests"]
people = {str(ROOT / "people.yaml")!r}
model = {"scripted:" + str(ROOT / "scripts" / "refund-8472.yaml")!r}
identity = "asserted"
hosts = ["127.0.0.1"]

[variables]
PAYMENTS_URL = ""
REFUNDS_URL = ""
POLICY_URL = ""
NOTIFICATIONS_URL = ""
TOKENS_URL = ""
SHOP_SECRET = ""

[oauth2.shop]
token_url = "${{TOKENS_URL}}/token"
client_id = "agent"
client_secret = "${{SHOP_SECRET}}"
"""


class Giver(BaseHTTPRequestHandler):
    """Gives tokens to whoever knows the secret."""

    asked = 0

    def do_POST(self) -> None:
        type(self).asked += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        pair = base64.b64decode(self.headers["Authorization"].removeprefix("Basic "))
        is_known = pair == f"agent:{SECRET}".encode()
        body = json.dumps(
            {"access_token": TOKEN, "token_type": "bearer", "expires_in": 60} if is_known else {"a": SECRET}
        )
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def tokens() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Giver)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def shop(tmp_path: Path, tokens: str) -> Here:
    """A project of its own: the refund machine, its tools with tokens."""
    shutil.copytree(ROOT / "tool_manifests" / "refund", tmp_path / "manifests")
    for path in (tmp_path / "manifests").glob("*.yaml"):
        path.write_text(path.read_text().replace("http: {method", "http: {oauth2: shop, method"))
    settings = tmp_path / "statemachine-agent.toml"
    settings.write_text(SETTINGS)
    return Here(tmp_path, {}, {"SMA_SETTINGS": str(settings), "TOKENS_URL": tokens, "SHOP_SECRET": SECRET})


def test_a_task_is_done_with_tokens_and_keeps_none(shop: Here, services: Sandbox) -> None:
    """Nothing of it in the store, the trace, what is printed, or the picture; one request serves all calls of a process."""
    shop.urls = services.urls
    Giver.asked = 0
    said = [shop("check"), shop("config"), shop("config", "--json"), shop("tools", "show", "lookup_order")]
    task, request = shop.propose()
    assert Giver.asked == 1
    shop.approve(request)
    said.append(shop("resume", task, "--json"))
    assert said[-1].json["status"] == "SUCCEEDED"
    assert Giver.asked == 2
    said += [shop(*words) for words in (("trace", task), ("trace", task, "--json"), ("show", task, "--json"))]
    said += [shop("effects", "--json"), shop("diagram", "refund", "--task", task)]
    said.append(shop("tools", "call", "lookup_order", "-i", "order_id=8472", "--as", "cust-3391"))
    assert all(one.code == 0 for one in said), [one for one in said if one.code]
    told = "".join(one.out + one.err for one in said).encode()
    kept = b"".join(path.read_bytes() for path in shop.folder.glob("tasks.db*"))
    assert b"8472" in told and b"8472" in kept
    for hidden in (SECRET, TOKEN, base64.b64encode(f"agent:{SECRET}".encode()).decode()):
        assert hidden.encode() not in told + kept


def test_the_settings_show_where_a_secret_stands_and_never_what_it_is(shop: Here) -> None:
    assert "shop = token_url ${TOKENS_URL}/token, client_id agent, client_secret SHOP_SECRET, set" in shop("config").out
    shown = shop("config", "--json").json["settings"]
    assert shown["oauth2"]["shop"]["client_secret"] == "SHOP_SECRET, set in the environment"  # noqa: S105  its name
    assert shown["variables"]["SHOP_SECRET"] == "set in the environment"  # noqa: S105  that it is there
    unset = Here(shop.folder, {}, {**shop.more, "SHOP_SECRET": ""})
    source = unset("config", "--json").json["settings"]["oauth2"]["shop"]
    assert source["client_secret"] == "SHOP_SECRET, not set"  # noqa: S105  its name


def test_a_check_finds_a_source_that_is_not_there(shop: Here) -> None:
    settings = shop.folder / "statemachine-agent.toml"
    settings.write_text(settings.read_text().replace("[oauth2.shop]", "[oauth2.shopp]"))
    found = shop("check")
    assert found.code != 0
    assert "`shop` is no token source of the settings" in found.out + found.err
    assert "did you mean `shopp`?" in found.out + found.err


def test_without_its_secret_a_task_does_not_begin(shop: Here, services: Sandbox) -> None:
    unset = Here(shop.folder, services.urls, {**shop.more, "SHOP_SECRET": ""})
    found = unset("run", "refund", "-i", "order_id=8472", "-i", "message=x", "--actor", "cust-3391")
    assert found.code not in (0, 3) and "SHOP_SECRET" in found.err
    assert unset.tasks() == []


def test_a_wrong_secret_reads_nothing_and_is_told_as_what_it_is(shop: Here, services: Sandbox) -> None:
    wrong = Here(shop.folder, services.urls, {**shop.more, "SHOP_SECRET": "guessed-and-wrong"})
    found = wrong("run", "refund", "-i", "order_id=8472", "-i", "message=x", "--actor", "cust-3391", "--json")
    shown = found.out + json.dumps(wrong.trace(found.json["task"]))
    assert found.json["status"] == "NO_PROGRESS"  # the script goes on asking
    assert wrong("effects", "--json").json == []
    assert "token_refused" in shown and "no token of `shop` from ${TOKENS_URL}/token" in shown
    assert "guessed-and-wrong" not in shown and SECRET not in shown
