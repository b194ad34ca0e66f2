"""Where tools get their access tokens: OAuth2 client credentials, as the settings name them.

The secret is always a variable of the environment, so that what a file says can be no secret. It must not know how a token is
asked for.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, field_validator

from statemachine_agent.definition.node import Duration, Node, Text, complaint, in_schema
from statemachine_agent.definition.template import variables_in

_ADDRESS = re.compile(r"(https?://[^\s@?#]+|\$\{[A-Z][A-Z0-9_]*\}[^\s@?#]*)")
_SECRET = re.compile(r"\$\{[A-Z][A-Z0-9_]*\}")


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise complaint("this is not the address of a token service", "write https://host/path, or begin with ${NAME}")
    return value


def _from_environment(value: str) -> str:
    if not _SECRET.fullmatch(value):
        raise complaint("a secret stands in no file", "keep it in the environment, and write ${NAME} here")
    return value


class TokenSource(Node):
    """A service that gives access tokens for client credentials (RFC 6749, section 4.4)."""

    #: where tokens are asked for; what holds for the addresses of tools holds for it too
    token_url: Annotated[Text, AfterValidator(_address), in_schema(pattern=r"^(https?://|\$\{)[^\s@?#]*$")]
    #: who asks, with `${VARIABLE}` where one is wanted
    client_id: Text
    #: `${VARIABLE}`, and nothing else
    client_secret: Annotated[Text, AfterValidator(_from_environment), in_schema(pattern=f"^{_SECRET.pattern}$")]
    #: what the token is to be good for, parted by blanks
    scope: Text | None = None
    #: for whom the token is to be, where the service wants to know
    audience: Text | None = None
    #: how the service is told who asks: a `basic` header, or in the `body`
    credentials: Literal["basic", "body"] = "basic"
    #: how long the service may take
    timeout: Duration = timedelta(seconds=10)

    @field_validator("token_url", "client_id")
    @classmethod
    def _variables(cls, value: str) -> str:
        if value.count("${") != len(variables_in(value)):
            raise complaint("a variable is written `${NAME}`, in capitals", "write its name in A-Z, 0-9 and _")
        return value

    @property
    def secret(self) -> str:
        """The variable that holds the secret."""
        return variables_in(self.client_secret)[0]

    @property
    def variables(self) -> tuple[str, ...]:
        """The names in `${…}`."""
        return tuple(
            name for text in (self.token_url, self.client_id, self.client_secret) for name in variables_in(text)
        )
