"""A prompt in few words, for a small model that goes on with a text: examples first, then this decision.

Nothing is in it that the prompt does not hold. It must not know which model reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from statemachine_agent.models.options import Option
from statemachine_agent.models.port import Prompt, Quoted
from statemachine_agent.text import one_line, shorten, visible

#: characters of one result, and of all together; the newest are kept
_ONE = 500
_ALL = 2_400

#: what every text begins with
EXAMPLES = """\
Each block is one decision: the next call, of those that are listed, for the task.

Task: Find out whether the book is on the shelf and whether the reader may borrow it. Then lend it.
Facts: input {"reader": "r_12", "wish": "I want to borrow Dune."}
Done: nothing
Calls: read_shelf, read_reader, search_rules, cannot_continue
Next: read_shelf {}

Task: Find out whether the book is on the shelf and whether the reader may borrow it. Then lend it.
Facts: input {"reader": "r_12", "wish": "I want to borrow Dune."}; read_shelf {"copy": "c_7"}; read_reader {"fines": 0}
Done: read_shelf, read_reader
Calls: search_rules, cannot_continue
Next: search_rules {"query": "rules to borrow a book Dune"}

Task: Find out whether the book is on the shelf and whether the reader may borrow it. Then lend it.
Facts: read_shelf {"copy": "c_7"}; read_reader {"fines": 0}; search_rules {"rule": "one book at a time"}
Done: read_shelf, read_reader, search_rules
Calls: search_rules, lend_book, cannot_continue
Next: lend_book {"copy": "c_7", "days": 14}

Task: Tell the reader what was lent, naming the loan.
Facts: read_loan {"loan": "loan_31", "status": "open"}
Done: read_loan
Calls: write_letter, cannot_continue
Next: write_letter {"text": "Your book was lent to you, the loan is loan_31."}

"""


def brief_of(prompt: Prompt, options: Sequence[Option]) -> str:
    """The text to go on with: what follows is the name of a call, a space and its arguments."""
    facts = list(_facts(prompt.quoted))
    done = [name for name, _ in facts if name != "input"]
    lines = [
        f"Task: {one_line(prompt.brief, 600)}",
        f"Facts: {'; '.join(f'{name} {text}' for name, text in facts) or 'none'}",
        f"Done: {', '.join(dict.fromkeys(done)) or 'nothing'}",
        *([f"Refused before: {one_line(prompt.observation, 200)}"] if prompt.observation else []),
        f"Calls: {', '.join(option.name for option in options)}",
        "Next:",
    ]
    return EXAMPLES + "\n".join(lines)


def _facts(quoted: Sequence[Quoted]) -> Iterator[tuple[str, str]]:
    """The data, oldest first: of each the head, and of all as many of the newest as there is room for."""
    room, kept = _ALL, []
    for one in reversed(quoted):
        text = shorten(visible(json.dumps(one.value, ensure_ascii=False)), min(_ONE, room))
        room -= len(text)
        kept.append((one.label.split(" ", 1)[0] if one.id not in ("input", "earlier") else one.id, text))
        if room < 1:
            break
    return reversed(kept)
