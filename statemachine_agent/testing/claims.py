"""What a test can claim of a walk: where it is, what is offered, what was refused, what was called, how it ended.

Each claim gives the walk back, and fails with where the walk stands and the way that it went. It must not move anything.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NoReturn, Self

from statemachine_agent.chart.chart import Availability, Standing, is_end
from statemachine_agent.models.port import Prompt
from statemachine_agent.records import Checkpoint
from statemachine_agent.testing import record
from statemachine_agent.testing.stage import Question
from statemachine_agent.testing.subject import Subject
from statemachine_agent.text import did_you_mean

#: pytest shows the test's line, not the claim's
__tracebackhide__ = True


class Claims:
    """The assertions of a walk."""

    subject: Subject

    @property
    @abstractmethod
    def checkpoint(self) -> Checkpoint:
        """The task as it is stored now."""

    @property
    @abstractmethod
    def history(self) -> list[Mapping[str, Any]]:
        """All rows of the task so far."""

    @property
    @abstractmethod
    def questions(self) -> list[Question]:
        """Who waits for the test."""

    # ------------------------------------------------------------ where it is

    def lands_in(self, state: str) -> Self:
        """The task is in `state` now (a built-in end counts as one)."""
        self._known(state)
        leaves = self.checkpoint.head.configuration
        if state not in (*leaves, *self.subject.compiled.chart.tree.full(leaves)):
            self.fail(f"it is in {', '.join(leaves)}, not in {state}")
        return self

    def ends(self, status: str, reason: str | None = None) -> Self:
        """The task has ended so, and with this reason code."""
        head = self.checkpoint.head
        if not is_end(head.configuration):
            self.fail(f"it has not ended: it is in {', '.join(head.configuration)}")
        if head.status != status or reason not in (None, head.reason):
            wanted = f"{status} ({reason})" if reason else status
            self.fail(f"it ended as {head.status} ({head.reason}), not as {wanted}")
        return self

    def waits_for(self, *roles: str) -> Self:
        """People of just these roles are asked for approval now."""
        asked = [a.roles for a in self.checkpoint.approvals if a.status == "open"]
        if not asked:
            self.fail("nobody is asked for approval")
        if sorted(asked[-1]) != sorted(roles):
            self.fail(f"people of the roles {', '.join(asked[-1])} are asked, not {', '.join(roles)}")
        return self

    # ------------------------------------------------------------ what may be proposed

    def offers(self, *tools: str) -> Self:
        """The model may propose each of these now."""
        for tool in tools:
            standing, text = self._standing(tool)
            if standing is not Standing.OFFERED:
                self.fail(f"`{tool}` is {standing} here" + (f": {text}" if text else ""))
        return self

    def hides(self, tool: str, text: str | None = None) -> Self:
        """`tool` has its place in this state and is refused now, whatever its arguments; `text` is part of the reason.

        With `text`, the row that says so counts as exercised.
        """
        standing, told = self._standing(tool)
        if standing is not Standing.HIDDEN:
            self.fail(f"`{tool}` is {standing} here, not hidden")
        if text is not None and text not in told:
            self.fail(f"`{tool}` is hidden with {told!r}, which does not say {text!r}")
        prompt = self._decision("see what is offered").prompt
        if text is not None and prompt is not None:
            record.hidden(self.subject.compiled, prompt.state, tool, told)
        return self

    def forbids(self, tool: str) -> Self:
        """This state does not name `tool` at all."""
        standing, _ = self._standing(tool)
        if standing is not Standing.ILLEGAL:
            self.fail(f"`{tool}` is {standing} here, not illegal")
        return self

    def _standing(self, tool: str) -> tuple[Standing, str]:
        found = self._available(self._decision("see what is offered").prompt)
        return next(((a.standing, a.text) for a in found if a.tool == tool), (Standing.ILLEGAL, ""))

    def _available(self, prompt: Prompt | None) -> tuple[Availability, ...]:
        """From what the model is shown."""
        assert prompt is not None  # noqa: S101  a decision has one
        offered = [Availability(tool.name, Standing.OFFERED) for tool in prompt.tools]
        hidden = [Availability(tool, Standing.HIDDEN, text) for tool, text in prompt.unavailable.items()]
        return (*offered, *hidden)

    # ------------------------------------------------------------ what became of a proposal

    def accepted(self) -> Self:
        """The newest proposal was accepted."""
        row = self._decided()
        if row["result"] != "accepted":
            self.fail(f"it was {row['result']}: {row['feedback']}")
        return self

    def refused(self, text: str | None = None) -> Self:
        """The newest proposal was refused by the machine's rows; `text` is part of what the model was told."""
        return self._not_admitted("refused", text)

    def invalid(self, error_class: str | None = None, text: str | None = None) -> Self:
        """The newest proposal was no valid one: an unknown tool, wrong arguments, a text without a call."""
        row = self._decided()
        if error_class is not None and row["result"] == "invalid" and row["error_class"] != error_class:
            self.fail(f"it was invalid as {row['error_class']}, not as {error_class}: {row['feedback']}")
        return self._not_admitted("invalid", text)

    def _not_admitted(self, how: str, text: str | None) -> Self:
        row = self._decided()
        if row["result"] != how:
            told = f": {row['feedback']}" if row["feedback"] else ""
            self.fail(f"it was {row['result']}, not {how}{told}")
        if text is not None and text not in (row["feedback"] or ""):
            self.fail(f"the model was told {row['feedback']!r}, which does not say {text!r}")
        return self

    def _decided(self) -> Mapping[str, Any]:
        rows = [r for r in self.history if r["table"] == "decision"]
        if not rows:
            waiting = self._waiting()
            self.fail(f"no proposal is recorded yet{waiting}")
        return rows[-1]

    # ------------------------------------------------------------ what was done

    def calls(self, tool: str, /, **args: Any) -> Self:
        """`tool` has been called and waits for its answer; these are among its arguments."""
        question = self._call("see what is called")
        assert question.manifest is not None and question.request is not None  # noqa: S101, PT018  a call has both
        if question.manifest.tool != tool:
            self.fail(f"`{question.manifest.tool}` was called, not `{tool}`")
        for name, value in args.items():
            given = question.request.args.get(name)
            if given != value:
                self.fail(f"`{tool}` was called with {name} = {given!r}, not {value!r}")
        return self

    def effect(self, tool: str, status: str) -> Self:
        """The newest effect of `tool` stands so: `proposed`, `executed`, `unknown` …."""
        found = self.checkpoint.newest_effect(tool)
        if found is None:
            self.fail(f"there is no effect of `{tool}`")
        if found.status != status:
            self.fail(f"the effect of `{tool}` is {found.status}, not {status}")
        return self

    def no_effect(self, tool: str) -> Self:
        """Nothing was ever proposed to `tool`, let alone sent."""
        found = self.checkpoint.newest_effect(tool)
        if found is not None:
            self.fail(f"there is an effect of `{tool}`: it is {found.status}")
        return self

    # ------------------------------------------------------------ failing

    def _decision(self, what: str) -> Question:
        for question in self.questions:
            if question.prompt is not None:
                return question
        return self.fail(f"no model is asked here, to {what}{self._waiting()}")

    def _call(self, what: str) -> Question:
        for question in self.questions:
            if question.manifest is not None:
                return question
        return self.fail(f"no tool waits here, to {what}{self._waiting()}")

    def _waiting(self) -> str:
        names = [q.manifest.tool for q in self.questions if q.manifest is not None]
        if names:
            return f"; `{names[0]}` waits for its answer: add `.ok(…)`, `.failed()` or `.lost()`"
        head = self.checkpoint.head
        if head.status.is_end:
            return f"; the task has ended as {head.status} ({head.reason})"
        if self.questions:
            return "; the model is to decide: add `.choose(…)`"
        return f"; the task rests in {', '.join(head.configuration)} ({head.status})"

    def _known(self, state: str) -> None:
        states = self.subject.compiled.chart.tree.children
        known = {child for children in states.values() for child in children}
        if state not in known:
            self.fail(f"`{self.subject.name}` has no state `{state}` ({did_you_mean(state, known)})")

    def fail(self, text: str) -> NoReturn:
        """AssertionError with `text`, where the walk stands, and the way it went."""
        head = self.checkpoint.head
        way = " → ".join(_way(self.history)) or ", ".join(head.configuration)
        raise AssertionError(f"{self.subject.name}: {text}\n  the way: {way}")


def _way(history: list[Mapping[str, Any]]) -> list[str]:
    """The states that were entered, with what led there."""
    found: list[str] = []
    for row in history:
        if row["table"] == "transition" and row["target"] is not None:
            if not found:
                found.append(str(row["source"]))
            found.append(f"{row['target']} ({row['event']})")
    return found
