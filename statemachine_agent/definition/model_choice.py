"""Which model decides in a machine or a state, by names that the settings give to models.

A definition only names. It must not know providers, addresses or keys, and not whether such a name is there.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from statemachine_agent.definition.node import Lower, Node, complaint


class ModelChoice(Node):
    """A model, and who is asked where it does not answer."""

    #: a name from `models` of the settings
    use: Lower
    #: another one, asked for the rest of a decision where the first failed twice, or said that it never will answer
    fallback: Lower | None = None

    @model_validator(mode="after")
    def _another(self) -> ModelChoice:
        if self.fallback == self.use:
            raise complaint(f"`{self.use}` falls back to itself", "name another model, or none")
        return self

    @property
    def names(self) -> dict[str, str]:
        """The names by the keys under which they stand."""
        return {"use": self.use} | ({"fallback": self.fallback} if self.fallback else {})


def _choice(value: Any) -> Any:
    """A name alone is the model to use."""
    return {"use": value} if isinstance(value, str) else value


#: `fast`, or `{use: fast, fallback: strong}`
Chosen = Annotated[ModelChoice, BeforeValidator(_choice, json_schema_input_type=Lower | ModelChoice)]
