"""Every sentence with which a definition can be refused has a file in this folder that brings it about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import statemachine_agent

HERE = Path(__file__).parent
PACKAGE = Path(statemachine_agent.__file__).parent

#: functions that take a sentence, and which of their arguments it is
TAKERS = {"complaint": 0, "fault": 1, "fault_at": 1, "_fault": 1, "Fault": 2, "_TooMuchError": 1, "_refuse": 1}

#: sentences that a file of this folder cannot bring about: see `test_unreadable_files.py`
ELSEWHERE = {
    "cannot be read: {}",
    "is too large ({} bytes)",
    "is too large",
    "is not UTF-8 text",
    "has more than {} values",
    "is not there",
    "the machine `{}` has faults of its own",  # that is another file: `nested/test_machines_in_machines.py`
}
#: modules that read settings, which are no definitions; their sentences are tested where settings are
SETTINGS = {"settings.py", "named_models.py", "token_source.py"}
#: what is said where no words were found for a complaint of a library: a net under the others
NETS = {
    "{}: {}{}",
    "{} is not {}",
    "is not valid YAML: {}",
    "{}",
    "{} is not of the right form",
}


def sentences() -> Iterator[tuple[str, str]]:
    """Each sentence with where it stands, the variable parts as `{}`."""
    for path in sorted([*(PACKAGE / "definition").glob("*.py"), *(PACKAGE / "guards").glob("*.py")]):
        if path.name in SETTINGS:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for text, line in _of_function(function):
                    yield text, f"{path.parent.name}/{path.name}:{line}"


def _of_function(function: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    named: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, []).append(node.value)
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            at = TAKERS.get(name)
            if at is not None and len(node.args) > at:
                argument = node.args[at]
                candidates = named.get(argument.id, []) if isinstance(argument, ast.Name) else [argument]
                yield from ((text, node.lineno) for c in candidates for text in _texts(c))
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and _promises_words(function):
            *_, sentence, _advice = node.value.elts
            candidates = named.get(sentence.id, []) if isinstance(sentence, ast.Name) else [sentence]
            yield from ((text, node.lineno) for c in candidates for text in _texts(c))


def _promises_words(function: ast.FunctionDef) -> bool:
    """A function that gives a sentence and an advice."""
    returns = ast.unparse(function.returns) if function.returns else ""
    return "Sentence" in returns or "tuple[str, str]" in returns or "Mark, str, str" in returns


def _texts(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)
        case ast.IfExp(body=one, orelse=other):
            yield from _texts(one)
            yield from _texts(other)
        case _:
            pass


@cache
def wanted() -> list[tuple[str, str]]:
    return sorted({(text, where) for text, where in sentences() if text not in ELSEWHERE | NETS})


TOLD = "\n".join(path.read_text(encoding="utf-8") for path in sorted(HERE.glob("*/*.expected")))


def test_the_sentences_are_found() -> None:
    """The search itself works: a change of style in the code must not make the test below empty."""
    assert len({text for text, _ in wanted()}) > 120


def test_every_sentence_is_brought_about_by_a_file() -> None:
    told = re.findall(r"^\S+:\d+:\d+: (?:warning: |note: )?(.+)$", TOLD, re.MULTILINE)
    missing = [f"{where}: {text}" for text, where in wanted() if not any(map(_pattern(text).fullmatch, told))]
    assert missing == []


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".+?".join(re.escape(part) for part in text.split("{}")))
