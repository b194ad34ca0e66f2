"""What may be a name, and which words are taken.

Nothing but a name ever becomes part of an event, a table, a path or a picture's anchor. It must not know what is named.
"""

from __future__ import annotations

import re

LOWER = re.compile(r"[a-z][a-z0-9_]{0,62}")
UPPER = re.compile(r"[A-Z][A-Z0-9_]{0,62}")

LOWER_PATTERN = rf"^{LOWER.pattern}$"
UPPER_PATTERN = rf"^{UPPER.pattern}$"
#: another machine, and its version
AT_VERSION_PATTERN = rf"^{LOWER.pattern}@[1-9][0-9]{{0,8}}$"
TARGET_PATTERN = rf"^(done|{UPPER.pattern})$"

#: the built-in ends; each is entered with a reason code
ENDS = ("SUCCEEDED", "NEEDS_INPUT", "DENIED", "BUDGET_EXHAUSTED", "NO_PROGRESS", "FAILED", "CANCELLED")

#: what a model can choose besides the tools
CONTROLS = ("finish", "ask_user", "cannot_continue", "request_approval")

#: what a guard may read
ROOTS = (
    "input", "actor", "evidence", "results", "asked", "call", "proposal", "effects", "approval", "usage", "visits",
    "now",
)  # fmt: skip

#: guards that the policy answers
RULING_GUARDS = ("approval_required", "approval_not_required")

#: holds while no effect of the task is open; asked on every way to SUCCEEDED of a machine that writes
SETTLED = "effects_settled"

RESERVED = frozenset({*ENDS, *CONTROLS, *ROOTS, *RULING_GUARDS, SETTLED, "done", "stay", "working"})

#: words of CEL that cannot be the name of a field
CEL_WORDS = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)


def is_reserved(name: str) -> bool:
    """True where `name` is taken by the language, without regard to case."""
    return name in RESERVED or name.upper() in ENDS or name.lower() in RESERVED
