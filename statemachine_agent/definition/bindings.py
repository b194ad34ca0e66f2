"""The bindings `command` and `mcp` as an author writes them: the words of a program's call, and the tool of a server.

It must not know how a program is started, nor how a server is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from statemachine_agent.definition.node import Lower, Node, Text, complaint, in_schema
from statemachine_agent.definition.sentences import shown
from statemachine_agent.definition.template import TemplateError, scalar

#: what stands for the key of a write; no argument can be called so
KEY = "call.key"

_HOLE = re.compile(r"(--?[A-Za-z0-9][A-Za-z0-9_-]*=)?\{([A-Za-z_][A-Za-z0-9_]*|call\.key)\}")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish", "busybox", "cmd.exe", "pwsh"})

#: bytes that one value, and all words of a call together, may have
MOST_OF_A_VALUE = 32_768
MOST_OF_A_CALL = 131_072


@dataclass(frozen=True)
class Word:
    """One word of a call: as it is, or an argument, alone or behind `--x=`."""

    text: str
    argument: str | None = None
    #: what stands in front of the argument
    front: str = ""


@dataclass(frozen=True)
class CommandLine:
    """The words of a call; a value fills one word, and never makes another."""

    program: str
    words: tuple[Word, ...]

    @classmethod
    def parse(cls, written: tuple[str, ...]) -> CommandLine:
        """The call, refused where a value could become anything but a value."""
        program, *rest = written
        if "{" in program or "}" in program:
            raise complaint("an argument stands in the program", "name the program itself")
        if program.rsplit("/", 1)[-1].lower() in _SHELLS:
            raise complaint(f"{shown(program)} is a shell", "name the program that does the work; a script is one too")
        words = []
        for text in rest:
            found = _HOLE.fullmatch(text)
            if found is None and ("{" in text or "}" in text):
                raise complaint(f"{shown(text)} is more than a placeholder", "write `{argument}` or `--x={argument}`")
            words.append(Word(text, found[2], found[1] or "") if found else Word(text))
        return cls(program, tuple(words))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that have a place in it."""
        return tuple(word.argument for word in self.words if word.argument not in (None, KEY))

    @property
    def tells_the_key(self) -> bool:
        """True where the program is given the key."""
        return any(word.argument == KEY for word in self.words)

    def fill(self, args: Mapping[str, object], key: str | None) -> list[str]:
        """The words behind the program; TemplateError for a value that cannot be one."""
        given = {**args, KEY: key} if key is not None else args
        words = [word.text if word.argument is None else _filled(word, given) for word in self.words]
        found = [word for word in words if word is not None]
        if sum(len(word.encode()) + 1 for word in found) > MOST_OF_A_CALL:
            raise TemplateError(f"the call has more than {MOST_OF_A_CALL} bytes", hint="give it less")
        return found


def _filled(word: Word, given: Mapping[str, object]) -> str | None:
    name = word.argument or ""
    if name not in given:
        if word.front:
            return None  # an optional argument that was not given
        raise TemplateError(f"the call needs `{name}`", hint="the argument is missing")
    value = scalar(name, given[name])
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise TemplateError(f"`{name}` is no text that can be written in UTF-8") from None
    if "\0" in value:
        raise TemplateError(f"`{name}` holds a zero byte", hint="no word of a call can hold one")
    if size > MOST_OF_A_VALUE:
        raise TemplateError(f"`{name}` has {size} bytes, more than {MOST_OF_A_VALUE}", hint="give it less")
    if value.startswith("-") and not word.front:
        raise TemplateError(f"`{name}` begins with `-`, and would be read as an option", hint=f"write `--x={{{name}}}`")
    return word.front + value


def _call(written: tuple[str, ...]) -> tuple[str, ...]:
    CommandLine.parse(written)
    return written


Words = Annotated[
    tuple[Text, ...],
    Field(min_length=1),
    AfterValidator(_call),
    in_schema(
        prefixItems=[{"pattern": "^[^{}]+$"}],
        items={"type": "string", "minLength": 1, "pattern": rf"^([^{{}}]+|{_HOLE.pattern})$"},
    ),
]


_HASH = re.compile(r"[0-9a-f]{64}")


def _is_hash(value: str) -> str:
    if not _HASH.fullmatch(value):
        raise complaint(f"{shown(value)} is no hash of a schema", "`sma tools import-mcp` writes it")
    return value


class Mcp(Node):
    """A tool of an MCP server; what the server says of it is never shown to a model, and gives no rights."""

    #: the server, as the settings name it
    server: Lower
    #: the tool, as the server names it
    tool: Text
    #: what the schemas of the tool were when somebody read them; a tool with others is not called. Every write has it
    schema_hash: Annotated[Text, AfterValidator(_is_hash), in_schema(pattern=f"^{_HASH.pattern}$")] | None = None
    #: the argument in which a write tells the server its key
    key_argument: Text | None = None
