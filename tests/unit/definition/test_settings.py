"""The project's settings."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from statemachine_agent.definition.settings import demo_settings, load_project
from statemachine_agent.errors import SettingsError


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_nothing_is_allowed(tmp_path: Path) -> None:
    project = load_project(tmp_path, {})
    assert (project.source, project.folder) == ("defaults", tmp_path)
    assert project.settings.identity == "os"
    assert project.settings.hosts == () and project.settings.python_packages == ()


def test_the_nearest_file_rules_and_paths_are_relative_to_it(tmp_path: Path) -> None:
    write(tmp_path / "statemachine-agent.toml", 'db = "far.db"\n')
    write(tmp_path / "a" / "pyproject.toml", '[tool.statemachine-agent]\ndb = "near.db"\nmachines = "m"\n')
    write(tmp_path / "a" / "b" / "pyproject.toml", "[tool.other]\n")
    project = load_project(tmp_path / "a" / "b", {})
    assert project.settings.db == "near.db"
    assert project.machines == [tmp_path / "a" / "m"]
    assert load_project(tmp_path, {}).settings.db == "far.db"


def test_beside_each_other_the_file_of_our_own_rules(tmp_path: Path) -> None:
    write(tmp_path / "statemachine-agent.toml", 'db = "own.db"\n')
    write(tmp_path / "pyproject.toml", '[tool.statemachine-agent]\ndb = "other.db"\n')
    assert load_project(tmp_path, {}).settings.db == "own.db"


def test_a_variable_names_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "x" / "my.toml", 'db = "named.db"\n')
    project = load_project(tmp_path, {"SMA_SETTINGS": str(path)})
    assert (project.settings.db, project.folder) == ("named.db", tmp_path / "x")
    with pytest.raises(SettingsError, match="which is no file"):
        load_project(tmp_path, {"SMA_SETTINGS": str(tmp_path / "gone.toml")})


def test_variables_override_single_values(tmp_path: Path) -> None:
    write(tmp_path / "statemachine-agent.toml", 'db = "a.db"\nmodel = "ask"\nhosts = ["a"]\n')
    settings = load_project(
        tmp_path,
        {
            "SMA_DB": "b.db",
            "SMA_MACHINES": os.pathsep.join(["one", "two"]),
            "SMA_HOSTS": "b:80, c",
            "SMA_MODEL": "",
            "SMA_ELSE": "x",
        },
    ).settings
    assert (settings.db, settings.model, settings.machines, settings.hosts) == (
        "b.db", "ask", ("one", "two"), ("b:80", "c"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('datab = "x"\n', "unknown setting `datab`", "did you mean `db`|known"),
        ('idenity = "os"\n', "unknown setting `idenity`", "did you mean `identity`"),
        ('identity = "google"\n', "`identity`: `google` is not one of `os`, `token`, `asserted`", "write one of them"),
        ("db = 3\n", "`db`: `3` is not a text", "put it in quotes"),
        ('hosts = "a"\n', "`hosts`: `a` is not a list", "write a list"),
        ('[variables]\nlower = "x"\n', "`variables.lower`: `lower` is not the name of a variable", "A-Z"),
        ("db = \n", "is not valid TOML", "mend it there"),
        ('private_hosts = "a"\n', "`private_hosts`: `a` is not a list", "write a list"),
        ("ca_file = 3\n", "`ca_file`: `3` is not a text", "put it in quotes"),
        ('[oauth2.Desk]\ntoken_url = "https://a"\n', "`oauth2.Desk`", "a-z"),
        ('[oauth2.desk]\nclient_id = "a"\n', "`oauth2.desk.token_url` is missing", "write it there"),
    ],
)
def test_what_cannot_be_used_is_refused_with_advice(tmp_path: Path, text: str, message: str, hint: str) -> None:
    path = write(tmp_path / "statemachine-agent.toml", text)
    with pytest.raises(SettingsError, match=message) as caught:
        load_project(tmp_path, {})
    assert str(path) in caught.value.message
    assert caught.value.hint is not None
    assert any(part in caught.value.hint for part in hint.split("|"))


def test_a_bad_value_of_a_variable_is_blamed_on_the_variable(tmp_path: Path) -> None:
    write(tmp_path / "statemachine-agent.toml", 'identity = "os"\n')
    with pytest.raises(SettingsError, match=r"^SMA_IDENTITY: `identity`: `x` is not one of"):
        load_project(tmp_path, {"SMA_IDENTITY": "x"})


def test_files_that_are_not_utf_8_or_no_table_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "statemachine-agent.toml").write_bytes(b'db = "\xe9"\n')
    with pytest.raises(SettingsError, match="is not valid TOML"):
        load_project(tmp_path / "a", {})
    write(tmp_path / "b" / "pyproject.toml", '[tool]\nstatemachine-agent = "x"\n')
    with pytest.raises(SettingsError, match=r"`tool\.statemachine-agent` is no table"):
        load_project(tmp_path / "b", {})


def test_a_script_of_the_settings_lies_in_their_folder(tmp_path: Path) -> None:
    write(tmp_path / "statemachine-agent.toml", 'model = "scripted:s.yaml"\n')
    project = load_project(tmp_path, {})
    assert project.model_spec(None) == f"scripted:{tmp_path / 's.yaml'}"
    assert project.model_spec("scripted:s.yaml") == "scripted:s.yaml"


def test_only_the_demo_believes_what_people_say_of_themselves() -> None:
    project = load_project(demo_settings().parent, {"SMA_SETTINGS": str(demo_settings())})
    assert project.settings.identity == "asserted"


SOURCE = """[variables]
DESK_SECRET = ""
DESK_ID = "agent"
[oauth2.desk]
token_url = "https://login.example/token"
client_id = "${DESK_ID}"
client_secret = "${DESK_SECRET}"
"""


def test_a_token_source_names_where_its_secret_stands(tmp_path: Path) -> None:
    write(tmp_path / "statemachine-agent.toml", SOURCE + 'scope = "a b"\ntimeout = "5s"\n')
    project = load_project(tmp_path, {})
    source = project.settings.oauth2["desk"]
    assert (source.secret, source.variables) == ("DESK_SECRET", ("DESK_ID", "DESK_SECRET"))
    assert project.listed == (frozenset({"DESK_ID", "DESK_SECRET"}), frozenset({"desk"}), frozenset())


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("${DESK_SECRET}", "hunter2-hunter2", "`oauth2.desk.client_secret`: a secret stands in no file", "environment"),
        ("${DESK_SECRET}", "${DESK_SECRET}x", "a secret stands in no file", "environment"),
        (
            'DESK_SECRET = ""',
            'DESK_SECRET = "hunter2-hunter2"',
            "`DESK_SECRET`, the secret of `desk`, has a value in a file",
            "set it",
        ),
        ('DESK_SECRET = ""\n', "", "`oauth2`: `desk` needs `${DESK_SECRET}`, which is not listed", "under `variables`"),
        ('DESK_ID = "agent"\n', "", "`oauth2`: `desk` needs `${DESK_ID}`, which is not listed", "under `variables`"),
        ("${DESK_ID}", "${desk}", "a variable is written `${NAME}`, in capitals", "A-Z"),
        ("https://login", "ftp://login", "this is not the address of a token service", "https://"),
        ("https://login", "https://me:hunter2-hunter2@login", "this is not the address of a token service", "https://"),
        ("/token", "/token?key=hunter2-hunter2", "this is not the address of a token service", "https://"),
        (
            "[oauth2.desk]",
            "[oauth2.desk]\ntoken = 1",
            "unknown setting `oauth2.desk.token`",
            "did you mean `token_url`",
        ),
        ("[oauth2.desk]", '[oauth2.desk]\ncredentials = "jwt"', "`jwt` is not one of `basic`, `body`", "write one"),
        ("[oauth2.desk]", '[oauth2.desk]\ntimeout = "0s"', "`oauth2.desk.timeout`", ""),
    ],
)
def test_a_token_source_that_cannot_be_used_is_refused_and_no_secret_quoted(
    tmp_path: Path, old: str, new: str, message: str, hint: str
) -> None:
    assert old in SOURCE
    write(tmp_path / "statemachine-agent.toml", SOURCE.replace(old, new, 1))
    with pytest.raises(SettingsError, match=re.escape(message)) as caught:
        load_project(tmp_path, {})
    assert "hunter2" not in caught.value.message + (caught.value.hint or "")
    assert hint in (caught.value.hint or "")


def test_private_hosts_come_from_the_environment_too_and_authorities_lie_beside_the_settings(tmp_path: Path) -> None:
    write(tmp_path / "statemachine-agent.toml", 'private_hosts = ["a"]\nca_file = "certs/own.pem"\n')
    project = load_project(tmp_path, {"SMA_PRIVATE_HOSTS": "b:80, c"})
    assert project.settings.private_hosts == ("b:80", "c")
    assert project.ca_file == str(tmp_path / "certs" / "own.pem")
