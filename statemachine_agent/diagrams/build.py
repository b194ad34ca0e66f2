"""A compiled machine → its picture, drawn from the transitions that are executed and from nothing else.

It must not know any output, and it holds no transition of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.chart.transitions import WORKING, Transition
from statemachine_agent.definition.names import CONTROLS, ENDS
from statemachine_agent.definition.nesting import done_of
from statemachine_agent.definition.states import (
    ApprovalState,
    CallState,
    ChooseState,
    CompoundState,
    Inlined,
    ReconcileState,
    State,
    WaitState,
)
from statemachine_agent.diagrams import words
from statemachine_agent.diagrams.mainline import MainLine
from statemachine_agent.diagrams.picture import Edge, End, Exit, Exits, Holder, Line, Node, Picture, Tool, is_exit
from statemachine_agent.diagrams.trail import Trail, between, fitting
from statemachine_agent.times import duration


def picture_of(machine: CompiledMachine, trail: Trail | None = None) -> Picture:
    """The picture of `machine`, with the way of one task where a trail is given."""
    return _Builder(machine, trail or Trail(())).picture()


@dataclass
class _Builder:
    machine: CompiledMachine
    trail: Trail
    kinds: dict[str, str] = field(init=False)
    lines: dict[int, Line] = field(init=False)
    main: MainLine = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = {name: state.kind for name, state in self.machine.definition.all_states.items()}
        chart = self.machine.chart
        self.lines = {line.transition.index: line for line in _lines(chart.transitions, self.kinds)}
        self.main = MainLine.of(chart.tree, [t for t in chart.transitions if _drawn(t)])
        self.trail = fitting(self.trail, chart.tree, chart.transitions)

    def picture(self) -> Picture:
        definition = self.machine.definition
        edges = self._edges()
        nodes = tuple(self._node(n, s) for n, s in definition.all_states.items() if not isinstance(s, CompoundState))
        return Picture(
            name=definition.machine,
            version=definition.version,
            summary=words.clean(definition.summary),
            limits=words.limits(definition.limits),
            guards=tuple(
                (name, words.whole(guard if isinstance(guard, str) else words.together(guard)))
                for name, guard in definition.guards.items()
            ),
            nodes=nodes,
            ends=self._ends(edges),
            edges=edges,
            exits=_exits(self.machine.chart.transitions, tuple(node.name for node in nodes)),
            holders=tuple(self._holder(n, s) for n, s in definition.all_states.items() if isinstance(s, CompoundState)),
            holds=definition.nesting.children,
        )

    # ------------------------------------------------------------ arrows and ends

    def _edges(self) -> tuple[Edge, ...]:
        found: dict[tuple[str, str], list[Line]] = {}
        for t in self.machine.chart.transitions:
            if _drawn(t):
                found.setdefault((t.source, t.target or ""), []).append(self.lines[t.index])
        for way in self.trail.moves:
            if way not in found:  # the task left by an exit: for once it is drawn, beside the note that tells of it
                found[way] = [self.lines[t.index] for t in between(*way, self.machine.chart.transitions)]
        return tuple(
            Edge(*way, tuple(lines), way in self.main.steps, self.trail.moves.get(way, 0))
            for way, lines in found.items()
        )

    def _ends(self, edges: Iterable[Edge]) -> tuple[End, ...]:
        shown = {edge.target for edge in edges} | set(self.trail.current)
        success = self.machine.definition.success
        only = (f"only while {words.listed(success)}",) if success else ()
        return tuple(
            End(name, only if name == "SUCCEEDED" else (), name in self.trail.current) for name in ENDS if name in shown
        )

    # ------------------------------------------------------------ states

    def _node(self, name: str, state: State) -> Node:
        inside = [
            self.lines[t.index]
            for t in self.machine.chart.transitions
            if t.source == name and not _drawn(t) and not is_exit(t)
        ]
        tools = self._tools(name, state, inside)
        told = {t.index for tool in tools for t in (*tool.stays, *(line.transition for line in tool.lines))}
        return Node(
            name=name,
            kind=state.kind,
            word=words.ENDING if self._is_branch(name) else words.KINDS[state.kind],
            facts=self._facts(state),
            brief=words.clean(state.brief or "") if isinstance(state, ChooseState) else "",
            tools=tools,
            lines=tuple(line for line in inside if line.transition.index not in told),
            mark=self._mark(name),
            current=name in self.trail.current,
            main=name in self.main.places,
        )

    def _is_branch(self, name: str) -> bool:
        """True for what stands for an end of a machine within this one."""
        definition = self.machine.definition
        scope = definition.scope(name)
        return scope is not None and name in definition.inlined[scope].ends.values()

    def _holder(self, name: str, state: CompoundState) -> Holder:
        nesting, tree = self.machine.definition.nesting, self.machine.chart.tree
        kind = "parallel" if state.parallel else "region" if nesting.is_region(name) else "compound"
        word = words.HOLDERS[kind]
        if isinstance(state, Inlined):
            kind, word = "machine", f"machine {state.of.machine} {state.of.version}"
        return Holder(
            name=name,
            kind=kind,
            word=word,
            first=tree.children[name] if state.parallel else (tree.first[name],),
            mark=self._mark(name),
            current=done_of(name) in self.trail.current,
            main=done_of(name) in self.main.places,
        )

    def _mark(self, name: str) -> str:
        """`start` of what a task is in first, `first` of what else is the first of its holder; regions all are."""
        tree = self.machine.chart.tree
        if self.machine.definition.nesting.is_region(name) or name not in tree.first.values():
            return ""
        begun = {one for leaf in self.machine.chart.initial for one in tree.line(leaf)}
        return "start" if name in begun else "first"

    def _tools(self, name: str, state: State, inside: Sequence[Line]) -> tuple[Tool, ...]:
        match state:
            case ChooseState():
                offered = state.choose.items()
                return tuple(self._choice(name, tool, words.pins(choice.pinned), inside) for tool, choice in offered)
            case CallState():
                return (Tool(state.call, self._effect(state.call), words.given(state.given)),)
            case ReconcileState():
                return (Tool(state.reconcile, self._effect(state.reconcile)),)
            case ApprovalState():
                return (Tool(state.approval.of, self._effect(state.approval.of)),)
            case _:
                return ()

    def _choice(self, state: str, tool: str, pinned: tuple[tuple[str, str], ...], inside: Sequence[Line]) -> Tool:
        own = [line for line in inside if line.transition.event.partition(".")[2] == tool]
        silent = [line for line in own if line.transition.kind == "stay" and not line.transition.guards]
        effect = self._effect(tool)
        leaves = any(
            _drawn(t) and t.source == state and t.event.partition(".")[2] == tool
            for t in self.machine.chart.transitions
        )
        use = "may leave" if leaves else "stays here"
        use = {"control": "", "read": use}.get(effect, "proposed, not run")
        loud = [line for line in own if line not in silent]
        return Tool(tool, effect, pinned, use, tuple(loud), tuple(line.transition for line in silent))

    def _effect(self, tool: str) -> str:
        manifest = self.machine.tools.get(tool)
        return "control" if tool in CONTROLS or manifest is None else manifest.effect

    def _facts(self, state: State) -> tuple[str, ...]:
        match state:
            case CallState():
                return self._checks(state.call)
            case ReconcileState():
                manifest = self.machine.tools.get(state.reconcile)
                if manifest is None or manifest.reconciler is None:
                    return ("sends the same request with the same key again",)
                return (f"asks {manifest.reconciler.tool} by the effect's key",)
            case ApprovalState():
                most = state.approval.at_most
                asked = (f"asked at most {words.so_often(most)}",) if most else ()
                return (*self._roles(state), f"expires after {duration(state.approval.expires)}", *asked)
            case WaitState():
                many = f", at most {state.wait.at_most} times" if state.wait.at_most else ""
                return (f"{words.waited(state.wait)}{many}",)
            case _:
                return ()

    def _checks(self, tool: str) -> tuple[str, ...]:
        manifest, limit = self.machine.tools.get(tool), self.machine.at_most(tool)
        found = [f"first checks {manifest.precondition.tool}"] if manifest and manifest.precondition else []
        return tuple(found + ([f"at most {words.so_often(limit)} in a task"] if limit else []))

    def _roles(self, state: ApprovalState) -> tuple[str, ...]:
        """Who must agree: as the machine says, and as the rules of the tool's manifest add."""
        manifest = self.machine.tools.get(state.approval.of)
        own = Counter(state.approval.by or ())
        ruled: Counter[str] = Counter()
        for rule in (manifest.approval or ()) if manifest else ():
            ruled |= Counter(rule.by)
        found = [f"by {words.people(own)}"] if own else []
        if more := ruled - own:
            also = "also " if own else ""
            found.append(f"{also}by {words.people(more, own)} where a rule of {state.approval.of} asks for it")
        return tuple(found)


def _drawn(t: Transition) -> bool:
    """True for what is an arrow: all that leads somewhere but the exits and the implied `cannot_continue`."""
    return t.target is not None and not is_exit(t) and not (t.implied and t.event == "call.cannot_continue")


def _lines(transitions: Iterable[Transition], kinds: dict[str, str]) -> Iterable[Line]:
    """Every transition in words, knowing its place in the list that it belongs to."""
    lists: dict[tuple[str, str], list[Transition]] = {}
    for t in transitions:
        lists.setdefault((t.source, t.event), []).append(t)
    for (source, _), rows in lists.items():
        asking = [t for t in rows if t.when or t.unless]
        # of one condition and "otherwise" nobody needs to be told the order
        numbered = len({(t.when, t.unless) for t in asking}) > 1 and any(t.target for t in asking)
        order = 0
        before: Transition | None = None
        for t in rows:
            through = before is not None and bool(before.success) and not t.success
            order += 0 if through else 1
            on = words.happened(t, kinds.get(source, ""))
            asked = ", ".join(p for p in (words.condition(t), "unless success" if through else "") if p)
            rest = "otherwise" if order > 1 and not (t.when or t.unless) else ""
            text = ", ".join(p for p in (rest, asked) if p)
            yield Line(t, on, text, order if numbered else None, words.notes(t))
            before = t


def _exits(transitions: Iterable[Transition], states: tuple[str, ...]) -> tuple[Exits, ...]:
    """The universal exits, those of the same states together; `states` are those in which a task can be."""
    found: dict[tuple[str, str], list[Transition]] = {}
    for t in transitions:
        if is_exit(t):
            found.setdefault((t.event, t.target or ""), []).append(t)
    groups: dict[tuple[str, ...], list[Exit]] = {}
    for (event, target), same in found.items():
        word = event.removeprefix("exit.").replace("_", " ")
        groups.setdefault(tuple(t.source for t in same), []).append(Exit(word, target, tuple(same)))
    shared = sorted(groups.items(), key=lambda group: group[0] != (WORKING,))
    return tuple(Exits(_where(sources, states, exits), tuple(exits)) for sources, exits in shared)


def _where(sources: tuple[str, ...], states: tuple[str, ...], exits: Iterable[Exit]) -> str:
    if sources == (WORKING,):
        return "from every working state"
    others = [s for s in states if s not in sources]
    which = f"all but {words.listed(others)}" if others else "every state"
    if len(others) > len(sources):
        which = words.listed(sources)
    budget = any(t.event == "exit.budget" for one in exits for t in one.transitions)
    return f"where a budget runs ({which})" if budget else f"from {which}"
