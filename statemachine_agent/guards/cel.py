"""The one module that touches cel-expr-python: compile, type, evaluate, and say what was wrong in an author's words.

It must not know guards, machines or tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cel_expr_python import cel

from statemachine_agent.errors import SmaError

Type = cel.Type
JSON_MAP = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
JSON_MAPS = cel.Type.List(JSON_MAP)


@dataclass(frozen=True)
class Problem:
    """One complaint of the compiler; `offset` counts characters of the expression."""

    offset: int
    message: str
    #: the expression cannot be read at all
    syntax: bool = False


class CompileError(SmaError):
    """An expression does not compile."""

    reason = "definition"

    def __init__(self, problems: list[Problem]) -> None:
        """All complaints at once."""
        self.problems = problems
        super().__init__("; ".join(p.message for p in problems))


class EvaluationError(SmaError):
    """An expression has no value for this data."""

    reason = "guard_error"


@dataclass(frozen=True)
class Compiled:
    """An expression that compiled in some environment."""

    text: str
    expression: Any

    @property
    def is_boolean(self) -> bool:
        """True where its static type is bool; `dyn` is not."""
        return bool(self.expression.return_type() == cel.Type.BOOL)

    @property
    def is_time(self) -> bool:
        """True where its static type is a timestamp."""
        return bool(self.expression.return_type() == cel.Type.TIMESTAMP)

    @property
    def is_anything(self) -> bool:
        """True where its static type is not known."""
        return bool(self.expression.return_type() == cel.Type.DYN)

    @property
    def type_name(self) -> str:
        """Its static type, as the compiler calls it."""
        return str(self.expression.return_type().name())

    @property
    def checked(self) -> bytes:
        """The checked syntax tree, in the wire form of cel.expr.CheckedExpr."""
        return bytes(self.expression.serialize())

    def value(self, data: Mapping[str, object]) -> object:
        """The value over `data` as plain Python data; EvaluationError where there is none."""
        try:
            found = self.expression.eval(data=data)
        except Exception as problem:  # noqa: BLE001  most errors come back as values, and whatever is raised is one too
            raise EvaluationError(_plain_error(str(problem))) from None
        if found.type() == cel.Type.ERROR:
            raise EvaluationError(_plain_error(str(found.plain_value())))
        return found.plain_value()

    def truth(self, data: Mapping[str, object]) -> bool:
        """True or False over `data`; EvaluationError for anything else."""
        found = self.value(data)
        if not isinstance(found, bool):
            raise EvaluationError(f"gave {type(found).__name__}, not true or false")
        return found


class Environment:
    """The names that expressions may use, each with a type."""

    def __init__(self, variables: Mapping[str, Any], pool: Any = None) -> None:
        """`pool` holds the message types that `variables` refer to."""
        self._environment = cel.NewEnv(descriptor_pool=pool, variables=dict(variables))

    def compile(self, text: str) -> Compiled:
        """`text` compiled and type-checked; CompileError with every complaint."""
        try:
            return Compiled(text, self._environment.compile(text))
        except RuntimeError as problem:
            raise CompileError(_problems(text, str(problem))) from None


def message_type(name: str) -> Any:
    """The type of a message of that full name."""
    return cel.Type(name)


@lru_cache(maxsize=2048)
def evaluator(text: str) -> Compiled:
    """`text` compiled over plain JSON maps, for evaluation; the environment is one for all expressions."""
    return _json_environment().compile(text)


_MAP_ROOTS = (
    "input", "actor", "evidence", "results", "asked", "call", "proposal", "approval", "usage", "visits",
    "args", "effect", "result",
)  # fmt: skip


@lru_cache(maxsize=1)
def _json_environment() -> Environment:
    roots: dict[str, Any] = dict.fromkeys(_MAP_ROOTS, JSON_MAP)
    return Environment({**roots, "effects": JSON_MAPS, "now": cel.Type.TIMESTAMP})


_COMPLAINT = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")


def _problems(text: str, error: str) -> list[Problem]:
    starts = [0, *(i + 1 for i, character in enumerate(text) if character == "\n")]
    found = []
    for line, column, message in _COMPLAINT.findall(error):
        row = max(0, min(int(line) - 1, len(starts) - 1))
        found.append(Problem(starts[row] + max(0, int(column) - 1), _author_words(message), _is_syntax(message)))
    if any(p.syntax for p in found):
        return [next(p for p in found if p.syntax)]  # the others follow from it
    return found or [Problem(0, _plain_error(error), syntax=True)]


def _is_syntax(message: str) -> bool:
    return message.startswith("Syntax error") or "recursion depth" in message


_WORDS = (
    (re.compile(r"undeclared reference to '(.+?)'(?: \(in container ''\))?"), r"nothing is called `\1`"),
    (re.compile(r"has\(\) argument must be a field selection"), r"`has` takes a field, for example `has(input.x)`"),
    (re.compile(r"undefined field '(.+?)' not found in struct '(.+?)'"), r"`\2` has no field `\1`"),
    (
        re.compile(r"expression of type '(.+?)' cannot be the operand of a select operation"),
        r"what is of type \1 cannot be looked into",
    ),
    (re.compile(r"found no matching overload for '(.+?)' applied to '(.+?)'"), r"\1 does not work on \2"),
    (re.compile(r"Syntax error: (mismatched|extraneous|no viable).*'<EOF>'.*"), r"the expression ends too early"),
    (re.compile(r"Syntax error: token recognition error at: '([\"'].*)'$"), r"the quote that opens here is not closed"),
    (re.compile(r"Syntax error: token recognition error at: '(.*)'$"), r"`\1` has no meaning in an expression"),
    (re.compile(r"Syntax error: .*? input '(.*?)'(?: expecting .*)?$"), r"`\1` cannot stand here"),
    (re.compile(r"Syntax error: missing '(.*?)' at '.*'$"), r"`\1` is missing here"),
    (re.compile(r"Syntax error: (.*?)(?: expecting .*)?$"), r"cannot be read: \1"),
    (re.compile(r"Exceeded max recursion depth.*"), r"is nested too deeply"),
)


def _author_words(message: str) -> str:
    for pattern, words in _WORDS:
        if pattern.search(message):
            return _operators(pattern.sub(words, message, count=1))
    return message


def _operators(message: str) -> str:
    head, mark, tail = message.partition(" does not work on ")
    if not mark:
        return message
    name = {"_?_:_": "? :", "<jump_condition>": "? :", "_[_]": "[ ]", "@in": "in"}.get(head, head.strip("_"))
    return f"`{name}` does not work on {tail}"


def _plain_error(error: str) -> str:
    """An evaluation error without the library's status words."""
    text = re.sub(r"^[A-Z_]+: ", "", error)
    text = re.sub(r" \[[A-Z_]+\]$", "", text)
    text = text.replace("Key not found in map : ", "there is no ")
    if "Iteration budget" in text:
        return "looks at too many things"
    text = text.replace("int64", "int")
    overload = re.match(r"No matching overloads found : (?:\((.+?)\)\.)?(.+?)(?:\((.*)\))?$", text)
    if overload:
        on = ", ".join(kinds for kinds in (overload[1], overload[3]) if kinds)
        return _operators(f"{overload[2]} does not work on {f'({on})' if on else 'that'}")
    if "recursion limit" in text:
        return "is nested too deeply"
    return text.replace('"', "`")
