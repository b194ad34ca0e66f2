"""What a checked expression reads, compares and calls, taken from its syntax tree.

The tree comes in the wire form of cel.expr.CheckedExpr (google/cel-spec, `checked.proto` and `syntax.proto`); the part of
those messages that is read here is declared below. It must not know machines or tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F = descriptor_pb2.FieldDescriptorProto
_INT, _STR, _BOOL, _DOUBLE, _MESSAGE = _F.TYPE_INT64, _F.TYPE_STRING, _F.TYPE_BOOL, _F.TYPE_DOUBLE, _F.TYPE_MESSAGE

#: message → field → (number, type, repeated)
_MESSAGES: dict[str, dict[str, tuple[int, Any, bool]]] = {
    "Any": {"value": (2, _F.TYPE_BYTES, False)},
    "CheckedExpr": {
        "type_map": (3, "TypeEntry", True), "source_info": (5, "SourceInfo", False), "expr": (4, "Expr", False),
    },
    "TypeEntry": {"key": (1, _INT, False), "value": (2, "Type", False)},
    "Type": {
        "primitive": (3, _F.TYPE_INT32, False), "well_known": (5, _F.TYPE_INT32, False), "list_type": (6, "Any", False),
        "map_type": (7, "Any", False), "message_type": (9, _STR, False),
    },
    "SourceInfo": {"positions": (4, "Position", True)},
    "Position": {"key": (1, _INT, False), "value": (2, _F.TYPE_INT32, False)},
    "Expr": {
        "id": (2, _INT, False), "const_expr": (3, "Constant", False), "ident_expr": (4, "Ident", False),
        "select_expr": (5, "Select", False), "call_expr": (6, "Call", False), "list_expr": (7, "List", False),
        "struct_expr": (8, "Struct", False), "comprehension_expr": (9, "Comprehension", False),
    },
    "Constant": {
        "bool_value": (2, _BOOL, False), "int64_value": (3, _INT, False), "double_value": (5, _DOUBLE, False),
        "string_value": (6, _STR, False),
    },
    "Ident": {"name": (1, _STR, False)},
    "Select": {"operand": (1, "Expr", False), "field": (2, _STR, False), "test_only": (3, _BOOL, False)},
    "Call": {"target": (1, "Expr", False), "function": (2, _STR, False), "args": (3, "Expr", True)},
    "List": {"elements": (1, "Expr", True)},
    "Struct": {"entries": (2, "Entry", True)},
    "Entry": {"map_key": (3, "Expr", False), "value": (4, "Expr", False)},
    "Comprehension": {
        "iter_var": (1, _STR, False), "iter_range": (2, "Expr", False), "accu_var": (3, _STR, False),
        "accu_init": (4, "Expr", False), "loop_condition": (5, "Expr", False), "loop_step": (6, "Expr", False),
        "result": (7, "Expr", False),
    },
}  # fmt: skip


Constant = str | int | float | bool | None

#: functions that take a text of a certain form
FORMED = frozenset({"timestamp", "duration", "matches"})


@dataclass(frozen=True)
class Comparison:
    """A field compared with literal values."""

    #: full name of the message that has the field
    message: str
    field: str
    #: each with its place
    literals: tuple[tuple[Constant, int], ...]


@dataclass
class Syntax:
    """What one expression does."""

    #: dotted paths from a root: `evidence.find_book.title`
    paths: set[tuple[str, ...]] = field(default_factory=set)
    #: (message, field) pairs whose value is read, also inside lists; `has` reads none
    fields: set[tuple[str, str]] = field(default_factory=set)
    #: the same, with all that is read on the way to a field; also on the way to one that `has` asks for
    passed: set[tuple[str, str]] = field(default_factory=set)
    #: what `has` asks for; true where it is one field, and not that of each element of a list
    asked: dict[tuple[str, str], bool] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    #: a function of `FORMED`, the literal given to it, and its place
    formed: list[tuple[str, str | int, int]] = field(default_factory=list)

    @property
    def roots(self) -> set[str]:
        """The names that the expression stands on."""
        return {path[0] for path in self.paths}


def analyse(checked: bytes) -> Syntax:
    """What the expression of this checked tree does."""
    return _Walk(tree_of(checked)).syntax


def tree_of(checked: bytes) -> Any:
    """The checked tree itself, of the messages declared above."""
    classes = _classes()
    return classes["CheckedExpr"].FromString(classes["Any"].FromString(checked).value)


def parts_of(call: Any) -> Iterator[Any]:
    """What a call is made on: its target, if it has one, and its arguments."""
    if call.HasField("target"):
        yield call.target
    yield from call.args


class _Walk:
    def __init__(self, tree: Any) -> None:
        self.types = {entry.key: entry.value.message_type for entry in tree.type_map}
        self.offsets = {entry.key: entry.value for entry in tree.source_info.positions}
        self.syntax = Syntax()
        self._visit(tree.expr, frozenset())

    def _visit(self, expr: Any, bound: frozenset[str]) -> None:
        """Walk down; `bound` are the names that comprehensions around it introduced."""
        if expr.HasField("ident_expr") and expr.ident_expr.name not in bound:
            self.syntax.paths.add((expr.ident_expr.name,))
        elif expr.HasField("select_expr"):
            self._select(expr, bound)
        elif expr.HasField("call_expr"):
            self._call(expr)
            for part in parts_of(expr.call_expr):
                self._visit(part, bound)
        elif expr.HasField("list_expr"):
            for part in expr.list_expr.elements:
                self._visit(part, bound)
        elif expr.HasField("struct_expr"):
            for entry in expr.struct_expr.entries:
                self._visit(entry.map_key, bound)
                self._visit(entry.value, bound)
        elif expr.HasField("comprehension_expr"):
            loop = expr.comprehension_expr
            inner = bound | {loop.iter_var, loop.accu_var, "@result"}
            self._visit(loop.iter_range, bound)
            for part in (loop.accu_init, loop.loop_condition, loop.loop_step, loop.result):
                self._visit(part, inner)

    def _select(self, expr: Any, bound: frozenset[str]) -> None:
        operand = expr.select_expr.operand
        message = self.types.get(operand.id, "")
        if message and not expr.select_expr.test_only:
            self.syntax.fields.add((message, expr.select_expr.field))
        elif message:
            one = (message, expr.select_expr.field)
            self.syntax.asked[one] = self.syntax.asked.get(one, False) or _root(operand) not in bound
        self._pass(expr)
        path = self._path(expr)
        if path is None:
            self._visit(operand, bound)
        elif path[0] not in bound:
            self.syntax.paths.add(path)

    def _pass(self, expr: Any) -> None:
        """Note what is read on the way; a path of names is not visited step by step."""
        while expr.HasField("select_expr"):
            select = expr.select_expr
            message = self.types.get(select.operand.id, "")
            if message and not select.test_only:
                self.syntax.passed.add((message, select.field))
            expr = select.operand

    def _path(self, expr: Any) -> tuple[str, ...] | None:
        if expr.HasField("ident_expr"):
            return (expr.ident_expr.name,)
        if not expr.HasField("select_expr"):
            return None
        before = self._path(expr.select_expr.operand)
        return (*before, expr.select_expr.field) if before else None

    def _call(self, expr: Any) -> None:
        call = expr.call_expr
        if call.function in ("_==_", "_!=_"):
            for one, other in ((call.args[0], call.args[1]), (call.args[1], call.args[0])):
                self._compared(one, [other])
        elif call.function == "@in" and call.args[1].HasField("list_expr"):
            self._compared(call.args[0], list(call.args[1].list_expr.elements))
        elif call.function in FORMED and call.args and call.args[-1].HasField("const_expr"):
            literal = call.args[-1]
            value = _constant(literal.const_expr)
            if isinstance(value, str | int):  # a time can also be a number of seconds
                self.syntax.formed.append((call.function, value, self._offset(literal)))

    def _compared(self, left: Any, right: list[Any]) -> None:
        if left.HasField("select_expr") and right and all(r.HasField("const_expr") for r in right):
            message = self.types.get(left.select_expr.operand.id, "")
            literals = tuple((_constant(r.const_expr), self._offset(r)) for r in right)
            self.syntax.comparisons.append(Comparison(message, left.select_expr.field, literals))

    def _offset(self, expr: Any) -> int:
        return int(self.offsets.get(expr.id, 0))


def _root(expr: Any) -> str | None:
    """The name that a path stands on, elements of lists included; None where it is the result of something else."""
    while not expr.HasField("ident_expr"):
        if expr.HasField("select_expr"):
            expr = expr.select_expr.operand
        elif expr.HasField("call_expr") and expr.call_expr.function == "_[_]":
            expr = expr.call_expr.args[0]
        else:
            return None
    return str(expr.ident_expr.name)


def _constant(value: Any) -> Constant:
    for name in ("bool_value", "int64_value", "double_value", "string_value"):
        if value.HasField(name):
            found: Constant = getattr(value, name)
            return found
    return None


@lru_cache(maxsize=1)
def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="cel_tree.proto", package="cel_tree", syntax="proto2")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for name, (number, kind, repeated) in fields.items():
            label = _F.LABEL_REPEATED if repeated else _F.LABEL_OPTIONAL
            made = message.field.add(name=name, number=number, label=label)
            if isinstance(kind, str):
                made.type, made.type_name = _MESSAGE, f".cel_tree.{kind}"
            else:
                made.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    names = {name: pool.FindMessageTypeByName(f"cel_tree.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in names.items()}
