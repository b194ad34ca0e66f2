"""Who runs a process is what the operating system says, and not what somebody wrote into the environment."""

from __future__ import annotations

import os

import pytest

from statemachine_agent import environment
from statemachine_agent.environment import Environment


@pytest.mark.parametrize("name", ["LOGNAME", "USER", "LNAME", "USERNAME"])
def test_a_variable_makes_nobody_somebody_else(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """`LOGNAME=boss sma approve …` is not the boss."""
    before = Environment().user()
    monkeypatch.setenv(name, "boss")
    assert Environment().user() == before != "boss"


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the number may be in no file; it still tells one user from another."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(environment.pwd, "getpwuid", unknown)
    assert Environment().user() == str(os.getuid())
