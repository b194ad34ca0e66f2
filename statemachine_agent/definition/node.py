"""The base of everything that a definition file holds, and how pydantic's complaints become faults with a place.

It must not know what a machine or a manifest is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from statemachine_agent.definition.document import Document, Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.names import LOWER_PATTERN, TARGET_PATTERN, UPPER_PATTERN
from statemachine_agent.definition.sentences import explain, shown
from statemachine_agent.text import did_you_mean, nearest, shorten

N = TypeVar("N", bound="Node")


class Node(BaseModel):
    """A mapping of a definition file: frozen, and closed to keys that it does not name."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)

    #: what can stand in for a key that has a fault, so that all else is checked; it never gets beyond the checks
    stand_in: ClassVar[Mapping[str, object]] = {}

    @model_validator(mode="before")
    @classmethod
    def _remember(cls, data: Any, info: ValidationInfo) -> Any:
        """Note which model read which mapping, so that an unknown key can be told its neighbours."""
        if isinstance(info.context, dict):
            info.context[id(data)] = cls
        return data

    @field_validator("*", mode="before")
    @classmethod
    def _has_a_value(cls, value: Any, info: ValidationInfo) -> Any:
        """A key with nothing behind it is a slip: as a key left out it would say something else than its author meant."""
        if value is None:
            name = str(info.field_name)
            field = cls.model_fields[name]
            advice = "write one behind the colon" if field.is_required() else "write one, or remove the key"
            raise complaint(f"`{field.alias or name}` has no value", advice)
        return value

    @classmethod
    def keys(cls) -> set[str]:
        """The keys as an author writes them."""
        return {field.alias or name for name, field in cls.model_fields.items()}

    @classmethod
    def needed(cls) -> list[str]:
        """Those that cannot be left away, in the order of the language."""
        return [field.alias or name for name, field in cls.model_fields.items() if field.is_required()]


def complaint(message: str, advice: str) -> PydanticCustomError:
    """What a validator raises: one sentence and one piece of advice."""
    return PydanticCustomError("complaint", "{message}", {"message": message, "advice": advice})


def in_schema(**keywords: Any) -> Any:
    """What the JSON schema of a value says besides, since only a validator of ours knows it; nothing is validated by it."""
    return Field(json_schema_extra=keywords)


# ---------------------------------------------------------------- values that occur everywhere

Lower = Annotated[str, StringConstraints(strict=True, pattern=LOWER_PATTERN)]
Upper = Annotated[str, StringConstraints(strict=True, pattern=UPPER_PATTERN)]
#: where a row leads
Target = Annotated[str, StringConstraints(strict=True, pattern=TARGET_PATTERN)]
Text = Annotated[str, StringConstraints(strict=True, min_length=1)]
MOST = 2**31 - 1  # of whatever is counted: it fits into a column of any database, and nobody means more
Count = Annotated[StrictInt, Field(ge=1, le=MOST)]
Cel = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=2000)]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)")
_WRITTEN = Annotated[str, Field(pattern=f"^{_DURATION.pattern}$")]
_LONGEST = 3660 * 86400.0  # ten years; a longer wait is a mistake


def _duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise complaint(f"{shown(value)} is not a duration", "write a number and a unit: 500ms, 30s, 10m, 2h, 7d")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > _LONGEST:
        raise complaint(f"{shown(value)} is longer than ten years", "write a shorter one")
    return timedelta(seconds=seconds)


def _not_nothing(value: timedelta) -> timedelta:
    if not value:
        raise complaint("this is no time at all", "write a longer one")
    return value


#: a duration that may be nothing
Pause = Annotated[timedelta, BeforeValidator(_duration, json_schema_input_type=_WRITTEN)]
Duration = Annotated[Pause, AfterValidator(_not_nothing), in_schema(**{"not": {"pattern": r"^0+(\.0+)?[a-z]+$"}})]


def _money(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise complaint(f"{shown(value)} is not an amount", "write a number, for example 0.50")
    return Decimal(str(value))


Money = Annotated[Decimal, BeforeValidator(_money, json_schema_input_type=float)]


def as_list(value: object) -> object:
    """One name is a list of one."""
    return [value] if isinstance(value, str) else value


#: what `as_list` makes names of
NameOrNames = Lower | Annotated[list[Lower], Field(min_length=1)]


# ---------------------------------------------------------------- from pydantic's errors to faults


def validate(document: Document, model: type[N]) -> N | None:
    """The document as `model`, as far as it can be read: what has a fault is left out, so that the rest is checked too.

    The faults are added to the document. None where nothing can be made of it.
    """
    if not isinstance(document.data, dict):
        if not document.faults:
            what = "is empty" if document.data is None else "is not a mapping"
            document.faults.append(
                document.fault((), what, f"write `key: value` lines; it needs {_list(model.needed())}")
            )
        return None
    while () not in document.gaps:
        readers: dict[int, type[Node]] = {}
        data = document.readable()
        try:
            return model.model_validate(data, context=readers)
        except ValidationError as problem:
            complaints = _complaints(document, data, problem.errors(include_url=False), readers)
        document.faults += [c.fault for c in complaints if not c.follows_from(document.gaps)]
        before = len(document.gaps)
        for found in complaints:
            found.leave_out(document)
        if len(document.gaps) == before:
            break
    return None


@dataclass(frozen=True)
class _Complaint:
    """One thing that pydantic complains of; paths are those of the file."""

    fault: Fault
    path: Path_
    #: the key that the mapping at `path` lacks, and what can stand in for it
    missing: str | None = None
    replacement: object = None

    def follows_from(self, gaps: set[Path_]) -> bool:
        """True where it only says that something is not there which was left out before."""
        path = self.path if self.missing is None else (*self.path, self.missing)
        return any(gap[: len(path)] == path for gap in gaps)

    def leave_out(self, document: Document) -> None:
        if self.missing is not None and self.replacement is not None:
            document.stand_in(self.path, self.missing, self.replacement)
        else:
            document.leave_out(self.path)


def _complaints(
    document: Document, data: object, errors: list[ErrorDetails], readers: Mapping[int, type[Node]]
) -> list[_Complaint]:
    """One complaint for each place: of several readings of one value the first is told."""
    found: dict[tuple[Path_, str | None], _Complaint] = {}
    excused: set[tuple[Path_, str | None]] = set()  # keys that are there under another name; None: all of a mapping
    for error in sorted(errors, key=lambda e: e["type"] == "missing"):
        path, parent, is_key = _path(data, error["loc"])
        here, missing, stand_in = document.in_file(path), None, None
        if error["type"] == "missing":
            missing = str(error["loc"][-1])
            what = f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this" if path else "the file"
            fault = document.fault(path, f"{what} lacks the key `{missing}`", f"add `{missing}:`", key=bool(path))
            model = readers.get(id(_value(data, path)))
            stand_in = model.stand_in.get(missing) if model else None
            if excused & {(here, missing), (here, None)}:
                document.gaps.add((*here, missing))
        elif error["type"] == "extra_forbidden":
            fault, meant = _unknown_key(document, path, parent, readers.get(id(parent)))
            excused.add((here[:-1], meant))
        else:
            fault = document.fault(path, *explain(error), key=is_key)
        found.setdefault((here, missing), _Complaint(fault, here, missing, stand_in))
    paths = {c.path for c in found.values()}
    above = {path[:length] for path in paths for length in range(len(path))}
    return [c for c in found.values() if c.missing is not None or c.path not in above]


def _path(data: object, location: tuple[int | str, ...]) -> tuple[Path_, object, bool]:
    """The path of `location` without the steps that only pydantic knows; the mapping or list around it; whether a key is meant.

    Only pydantic knows the names of readings, and what a short form is written out to.
    """
    path: Path_ = ()
    here, around = data, data
    for step in location:
        if isinstance(here, dict) and str(step) in here:
            path, here, around = (*path, str(step)), here[str(step)], here
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            path, here, around = (*path, step), here[step], here
        elif isinstance(here, list) and step in here:  # names in a list are short for the keys of a mapping
            path, here, around = (*path, here.index(step)), step, here
    return path, around, location[-1:] == ("[key]",)


def _value(data: object, path: Path_) -> object:
    for step in path:
        data = data[step]  # type: ignore[index]
    return data


def _unknown_key(document: Document, path: Path_, parent: object, model: type[Node] | None) -> tuple[Fault, str | None]:
    """The fault of a key that nobody reads, and the key that was most likely meant; None: the mapping means something else."""
    key = str(path[-1])
    known = model.keys() if model else set()
    mapping = parent if isinstance(parent, dict) else {}
    free = known - set(mapping)
    meant = nearest(key, free) or ""
    advice = did_you_mean(key, free if meant else known)
    if mapping.get(key) is None:
        before = list(mapping)[: list(mapping).index(key)]
        if key.partition(":")[0] in known and ":" in key:
            advice = "write a space after the colon"
        elif document.place(path).flow and before and isinstance(mapping[before[-1]], str):
            advice = "quote the text: the comma ended it"
    return document.fault(path, f"unknown key `{shorten(key, 60)}`", advice, key=True), meant


def _list(keys: Iterable[str]) -> str:
    return ", ".join(f"`{k}`" for k in keys)
