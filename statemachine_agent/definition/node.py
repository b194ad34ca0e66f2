"""The base of everything that a definition file holds, and how pydantic's complaints become faults with a place.

It must not know what a machine or a manifest is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.names import LOWER_PATTERN, UPPER_PATTERN
from statemachine_agent.definition.source import Document, Path_
from statemachine_agent.text import did_you_mean, nearest, shorten

N = TypeVar("N", bound="Node")


class Node(BaseModel):
    """A mapping of a definition file: frozen, and closed to keys that it does not name."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)

    #: keys of the language that this version does not build yet, refused by name
    not_built: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _remember(cls, data: Any, info: ValidationInfo) -> Any:
        """Note which model read which mapping, so that an unknown key can be told its neighbours."""
        if isinstance(info.context, dict):
            info.context[id(data)] = cls
        return data

    @classmethod
    def keys(cls) -> set[str]:
        """The keys as an author writes them."""
        return {field.alias or name for name, field in cls.model_fields.items()}


def complaint(message: str, advice: str) -> PydanticCustomError:
    """What a validator raises: one sentence and one piece of advice."""
    return PydanticCustomError("complaint", "{message}", {"message": message, "advice": advice})


# ---------------------------------------------------------------- values that occur everywhere

Lower = Annotated[str, StringConstraints(strict=True, pattern=LOWER_PATTERN)]
Upper = Annotated[str, StringConstraints(strict=True, pattern=UPPER_PATTERN)]
Text = Annotated[str, StringConstraints(strict=True, min_length=1)]
Cel = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=2000)]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        number = value.rstrip("msdh")
        unit = value[len(number) :]
        if unit in _UNITS and number.replace(".", "", 1).isdigit() and float(number) * _UNITS[unit] <= _LONGEST:
            return timedelta(seconds=float(number) * _UNITS[unit])
    raise complaint(f"`{value}` is not a duration", "write a number and a unit: 500ms, 30s, 10m, 2h, 7d")


_LONGEST = 3660 * 86400.0  # ten years; a longer wait is a mistake

Duration = Annotated[timedelta, BeforeValidator(_duration, json_schema_input_type=str)]


def _money(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise complaint(f"`{value}` is not an amount", "write a number, for example 0.50")
    return Decimal(str(value))


Money = Annotated[Decimal, BeforeValidator(_money, json_schema_input_type=float)]


def as_list(value: object) -> object:
    """One name is a list of one."""
    return [value] if isinstance(value, str) else value


# ---------------------------------------------------------------- from pydantic's errors to faults


def validate(document: Document, model: type[N]) -> N | None:
    """The document as `model`; None when it is not one, the faults being added to the document."""
    if document.data is None and not document.faults:
        document.faults.append(document.fault((), "is empty", f"it needs the keys {_list(model.keys())}"))
    if not isinstance(document.data, dict):
        if not document.faults:
            document.faults.append(document.fault((), "is not a mapping", f"it needs the keys {_list(model.keys())}"))
        return None
    readers: dict[int, type[Node]] = {}
    try:
        return model.model_validate(document.data, context=readers)
    except ValidationError as problem:
        for error in problem.errors(include_url=False):
            document.faults.append(_fault(document, error, readers))
        return None


def _fault(document: Document, error: ErrorDetails, readers: Mapping[int, type[Node]]) -> Fault:
    path = _path(document, error["loc"])
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(document, path, readers)
    if kind == "complaint":
        return document.fault(path, str(context["message"]), str(context["advice"]))
    if kind == "missing":
        key = str(error["loc"][-1])
        what = f"`{path[-1]}`" if path else "the file"
        return document.fault(path, f"{what} lacks the key `{key}`", f"add `{key}:`", key=bool(path))
    sentence, advice = _SENTENCES.get(kind, _other)(document.at(path), context, error["msg"])
    return document.fault(path, sentence, advice)


def _path(document: Document, location: tuple[int | str, ...]) -> Path_:
    """`location` without the steps that only pydantic knows (names of union members, of normalised lists)."""
    path: Path_ = ()
    for step in location:
        here = document.at(path)
        if (isinstance(here, dict) and step in here) or (
            isinstance(here, list) and isinstance(step, int) and step < len(here)
        ):
            path = (*path, step)
    return path


def _unknown_key(document: Document, path: Path_, readers: Mapping[int, type[Node]]) -> Fault:
    key = str(path[-1])
    parent = document.at(path[:-1])
    model = readers.get(id(parent))
    known = model.keys() if model else set()
    if model and key in model.not_built:
        return document.fault(
            path, f"`{key}` is not built yet", "remove it; it will come with a later version", key=True
        )
    if isinstance(parent, dict) and parent.get(key) is None and document.place(path).flow:
        before = list(parent)[: list(parent).index(key)]
        if before and isinstance(parent[before[-1]], str):
            return document.fault(
                path, f"unknown key `{shorten(key, 60)}`", "quote the text: the comma ended it", key=True
            )
    return document.fault(path, f"unknown key `{shorten(key, 60)}`", did_you_mean(key, known), key=True)


def _shown(value: object) -> str:
    return f"`{shorten(str(value), 60)}`"


def _other(value: object, _context: Mapping[str, Any], message: str) -> tuple[str, str]:
    return (
        f"{_shown(value)}: {message[:1].lower()}{message[1:]}",
        "write what the language reference names for this key",
    )


def _pattern(value: object, context: Mapping[str, Any], _message: str) -> tuple[str, str]:
    pattern = context.get("pattern")
    if pattern == LOWER_PATTERN:
        return f"{_shown(value)} is not a name", "a name begins with a-z and goes on with a-z, 0-9 and _"
    if pattern == UPPER_PATTERN:
        return f"{_shown(value)} is not the name of a state", "a state begins with A-Z and goes on with A-Z, 0-9 and _"
    return f"{_shown(value)} does not match {pattern}", "write it in that form"


def _kind(name: str) -> Callable[[object, Mapping[str, Any], str], tuple[str, str]]:
    def sentence(value: object, _context: Mapping[str, Any], _message: str) -> tuple[str, str]:
        if value is None:
            return "nothing stands here", f"write {name}"
        return f"{_shown(value)} is not {name}", f"write {name}"

    return sentence


def _literal(value: object, context: Mapping[str, Any], _message: str) -> tuple[str, str]:
    choices = str(context.get("expected", "")).replace("'", "`")
    words = [w.strip("` ") for w in choices.replace(" or ", ", ").split(",")]
    near = nearest(str(value), words)
    return f"{_shown(value)} is not one of {choices}", f"did you mean `{near}`?" if near else f"write one of {choices}"


def _limit(words: str, key: str) -> Callable[[object, Mapping[str, Any], str], tuple[str, str]]:
    def sentence(value: object, context: Mapping[str, Any], _message: str) -> tuple[str, str]:
        return f"{_shown(value)} must be {words} {context.get(key)}", f"write a value {words} {context.get(key)}"

    return sentence


_SENTENCES: dict[str, Callable[[object, Mapping[str, Any], str], tuple[str, str]]] = {
    "string_type": _kind("a text"),
    "int_type": _kind("a whole number"),
    "int_from_float": _kind("a whole number"),
    "float_type": _kind("a number"),
    "bool_type": _kind("true or false"),
    "list_type": _kind("a list"),
    "tuple_type": _kind("a list"),
    "dict_type": _kind("a mapping"),
    "model_type": _kind("a mapping"),
    "model_attributes_type": _kind("a mapping"),
    "string_pattern_mismatch": _pattern,
    "literal_error": _literal,
    "enum": _literal,
    "greater_than_equal": _limit("at least", "ge"),
    "greater_than": _limit("more than", "gt"),
    "less_than_equal": _limit("at most", "le"),
    "string_too_long": _limit("a text of at most", "max_length"),
    "string_too_short": _limit("a text of at least", "min_length"),
    "too_short": _limit("a list of at least", "min_length"),
}


def _list(keys: set[str]) -> str:
    return ", ".join(f"`{k}`" for k in sorted(keys))
