"""What an expression makes of its data stays small: whatever could grow with the turns of a loop is refused when it is read.

The library counts how often loops turn, and not how large what they make becomes: a text that is doubled at every turn of a
few is larger than any memory. So, within a loop (`map`, `filter`, `exists`, `all`, `exists_one`), an expression takes parts of
its data and computes numbers, and puts nothing together:

- `+` is for numbers and times; beside loops a few texts or lists may be joined.
- a list is made only to look into it (`x in ["a", "b"]`), and all that are written down have few elements together.
- what `map` gives for an element is a part of it, a number, or a constant: a loop over made lists of made lists has no end.
- `map` and `filter` copy what they gathered at every turn, so that they go over lists of which a length is declared.

It must not know machines or tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from statemachine_agent.definition.schema import MAX_ITEMS
from statemachine_agent.guards.syntax import parts_of, tree_of
from statemachine_agent.guards.types import MessageTypes

#: texts and lists that are joined beside loops, in one expression: each time all that was joined before is copied
_JOINS = 8
#: what all lists and maps that are written in one expression may weigh
_WEIGHT = 1000
#: and an element that is no constant, or one that is made anew at every turn of a loop
_HEAVY = 10

_TEXT, _BYTES = 5, 6  # primitive types, by their numbers in checked.proto


@dataclass(frozen=True)
class Excess:
    """One thing that could become too large, and its place."""

    message: str
    advice: str
    offset: int


class _Place(Enum):
    """Where an expression stands."""

    BESIDE = auto()  #: no loop has to do with it
    RANGE = auto()  #: a loop goes over what it gives
    WITHIN = auto()  #: it is asked at every turn


def excesses(checked: bytes, known: MessageTypes, *, uncertain: bool = False) -> list[Excess]:
    """What could become too large in the expression of this checked tree; with `uncertain`, what nobody knows is no fault."""
    return _Walk(tree_of(checked), known, uncertain=uncertain).found


class _Walk:
    def __init__(self, tree: Any, known: MessageTypes, *, uncertain: bool) -> None:
        self.found: list[Excess] = []
        self._types = {entry.key: entry.value for entry in tree.type_map}
        self._offsets = {entry.key: entry.value for entry in tree.source_info.positions}
        self._known = known
        self._uncertain = uncertain
        self._bound: list[str] = []
        self._joins = self._weight = 0
        self._visit(tree.expr, _Place.BESIDE)

    def _visit(self, expr: Any, place: _Place) -> None:
        if expr.HasField("select_expr"):
            self._visit(expr.select_expr.operand, place)
        elif expr.HasField("call_expr"):
            self._call(expr, place)
        elif expr.HasField("list_expr") or expr.HasField("struct_expr"):
            if place is _Place.WITHIN:
                self._refuse(expr, "a list or map is made at every turn of a loop", "make it outside of the loop")
            self._literal(expr, place)
        elif expr.HasField("comprehension_expr"):
            self._loop(expr, place)

    def _call(self, expr: Any, place: _Place) -> None:
        call = expr.call_expr
        if call.function == "_+_" and not self._is_small(expr):
            self._join(expr, place)
        elif call.function == "bytes":
            self._refuse(expr, "a guard has no use for `bytes`", "compare the texts themselves")
        looked_into = call.args[1].id if call.function == "@in" else 0
        for part in parts_of(call):
            if part.id == looked_into and part.HasField("list_expr"):
                self._literal(part, place)
            else:
                self._visit(part, place)

    def _join(self, expr: Any, place: _Place) -> None:
        if place is not _Place.WITHIN:
            self._joins += 1
            if self._joins == _JOINS + 1:
                self._refuse(expr, f"more than {_JOINS} texts or lists are joined", "compare the parts, one by one")
        elif self._is_unknown(expr):
            if not self._uncertain:
                advice = "write `int(…)` or `double(…)` around what is added"
                self._refuse(expr, "`+` within a loop is for numbers, and these can be anything", advice)
        else:
            self._refuse(
                expr, "`+` within a loop is for numbers and times: what it makes of texts or lists could grow without end",
                "compare the parts, or join them outside of the loop",
            )  # fmt: skip

    def _literal(self, expr: Any, place: _Place) -> None:
        """A list or map that is written down."""
        elements = _elements(expr)
        before = self._weight
        for element in elements:
            heavy = place is _Place.WITHIN or not element.HasField("const_expr")
            self._weight += _HEAVY if heavy else 1
            if place is not _Place.BESIDE and self._is_made(element):
                self._refuse(element, "a loop goes over lists that are made in a list", "loop over one of them")
            self._visit(element, place)
        if before <= _WEIGHT < self._weight:
            self._refuse(
                expr, "too much is written in lists here", "declare it as an `enum`, or make it input or a tool"
            )

    def _loop(self, expr: Any, place: _Place) -> None:
        loop = expr.comprehension_expr
        inside = place if place is _Place.WITHIN else _Place.RANGE
        if loop.iter_range.HasField("list_expr"):
            self._literal(loop.iter_range, inside)
        else:
            self._visit(loop.iter_range, inside)
        self._bound.append(loop.iter_var)
        if not loop.accu_init.HasField("list_expr"):
            self._visit(loop.loop_step, _Place.WITHIN)
            self._bound.pop()
            return
        step = loop.loop_step  # what the library makes of `map` and `filter`: condition ? @result + [element] : @result
        if step.call_expr.function == "_?_:_":
            self._visit(step.call_expr.args[0], _Place.WITHIN)
            step = step.call_expr.args[1]
        (element,) = step.call_expr.args[1].list_expr.elements
        before = len(self.found)
        self._visit(element, _Place.WITHIN)
        self._bound.pop()
        if len(self.found) == before and not self._is_part(element, loop.iter_var):
            self._refuse(
                element, "`map` makes more of an element than a part of it, or a number",
                f"take a field of `{loop.iter_var}`, or use `exists` or `all`",
            )  # fmt: skip
        self._check_length(expr, loop.iter_range)

    def _check_length(self, expr: Any, range_: Any) -> None:
        length = self._length(range_)
        if length is None and not self._uncertain:
            advice = "describe it as an `array` where it is declared, or use `exists` or `all`"
            self._refuse(
                expr, "`map` and `filter` go over lists of a declared length, and this can be anything", advice
            )
        elif length is not None and length > MAX_ITEMS:
            self._refuse(
                expr, f"`map` and `filter` go over lists of at most {MAX_ITEMS} elements, and this can have {length}",
                "declare a lower `maxItems`, or use `exists` or `all`",
            )  # fmt: skip

    # ------------------------------------------------------------ what is known of a part

    def _length(self, expr: Any) -> int | None:
        """How many elements a list can have; None where nobody says. What is written or gathered was judged by itself."""
        if expr.HasField("list_expr") or expr.HasField("comprehension_expr"):
            return 0
        if expr.HasField("ident_expr"):
            root = expr.ident_expr.name in self._known.roots and expr.ident_expr.name not in self._bound
            return 0 if root and self._type(expr, "list_type") else None
        if expr.HasField("select_expr"):
            message = self._types.get(expr.select_expr.operand.id)
            _, properties = self._known.known.get(message.message_type if message is not None else "", ("", {}))
            field = properties.get(expr.select_expr.field)
            if field is None or field.kind != "array":
                return None
            return MAX_ITEMS if field.max_items is None else field.max_items
        if expr.call_expr.function == "_?_:_":
            both = [self._length(branch) for branch in expr.call_expr.args[1:]]
            return None if None in both else max(length for length in both if length is not None)
        return None

    def _is_part(self, expr: Any, var: str) -> bool:
        """True for a part of the element `var`, and for what is small by itself."""
        if expr.HasField("const_expr") or self._is_small(expr):
            return True
        if expr.HasField("ident_expr"):
            return bool(expr.ident_expr.name == var)
        if expr.HasField("select_expr"):
            return self._is_part(expr.select_expr.operand, var)
        function, args = expr.call_expr.function, expr.call_expr.args
        if function == "_?_:_":
            return all(self._is_part(branch, var) for branch in args[1:])
        return function in ("_[_]", "string", "dyn") and self._is_part(args[0], var)

    def _is_made(self, expr: Any) -> bool:
        """True for a list or map that the expression itself puts together, and for what holds one."""
        if self._is_small(expr) or self._type(expr, "primitive") == _TEXT:
            return False
        if expr.HasField("select_expr"):
            return self._is_made(expr.select_expr.operand)
        if expr.HasField("call_expr"):
            return any(self._is_made(part) for part in parts_of(expr.call_expr))
        return any(expr.HasField(made) for made in ("list_expr", "struct_expr", "comprehension_expr"))

    def _is_small(self, expr: Any) -> bool:
        """True for numbers, times, true and false."""
        return self._type(expr, "primitive") not in (0, _TEXT, _BYTES) or self._type(expr, "well_known") > 1

    def _is_unknown(self, expr: Any) -> bool:
        return not any(self._type(expr, name) for name in ("primitive", "well_known", "list_type", "map_type"))

    def _type(self, expr: Any, name: str) -> int:
        """The part `name` of an expression's type, as a number; 0 where its type is another, or not known."""
        found = self._types.get(expr.id)
        if found is None or not found.HasField(name):
            return 0
        value = getattr(found, name)
        return value if isinstance(value, int) else 1

    def _refuse(self, expr: Any, message: str, advice: str) -> None:
        self.found.append(Excess(message, advice, int(self._offsets.get(expr.id, 0))))


def _elements(expr: Any) -> list[Any]:
    if expr.HasField("list_expr"):
        return list(expr.list_expr.elements)
    return [part for entry in expr.struct_expr.entries for part in _entry(entry)]


def _entry(entry: Any) -> Iterator[Any]:
    if entry.HasField("map_key"):
        yield entry.map_key
    yield entry.value
