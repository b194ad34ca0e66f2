"""Mutants of a package, each run in a fork of one pytest that has collected its tests: see `docs/testing.md`.

As a program it writes mutmut's mutants into the files that it is given (in a clone that is thrown away) or shows one of them. As
a plugin of pytest it runs every test once, to learn which functions it reaches, and then, for each mutant, the tests that reach
its function, until one fails. It must not know what the tests test.
"""

from __future__ import annotations

import ast
import difflib
import functools
import gc
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest

#: the names of the mutants to run, one a line, and what came of each: a line with the first test that failed, or null
NAMES, REPORT = Path(os.environ.get("MUTANTS", "mutants.txt")), Path(os.environ.get("REPORT", "mutants.jsonl"))
CHILDREN = int(os.environ.get("CHILDREN", "1"))
#: how many tests a mutant is run against, at most: those that killed others of its function, and then the cheapest
MOST = int(os.environ.get("MOST", "1000000"))
#: what was compiled for an earlier mutant must be compiled again
FORGOTTEN = ("statemachine_agent", "tests", "unit", "support", "invalid", "nested", "endings")
#: these compile nothing: of what is kept, only what they keep themselves depends on their mutants
COMPILING_NOTHING = ("loop", "store", "policy")
CACHES: list[Callable[[], None]] = []
FAILED: list[str] = []


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Instead of the tests, their mutants."""
    CACHES[:] = _caches()
    reached, seconds = _reached(session)
    CACHES[:] = _caches()
    done = {json.loads(line)["mutant"] for line in REPORT.read_text().splitlines()} if REPORT.exists() else set()
    kills: Counter[tuple[str, str]] = Counter()
    running: dict[int, tuple[str, int]] = {}
    gc.freeze()
    for mutant in NAMES.read_text().split():
        function = mutant.partition("__mutmut_")[0]
        if mutant not in done:
            tests = sorted(reached.get(function, ()), key=lambda t: (-kills[function, t.nodeid], seconds[t.nodeid]))
            tests = tests[:MOST]
            _start(mutant, tests, 20 + 10 * sum(seconds[t.nodeid] for t in tests), running)
        while len(running) >= CHILDREN:
            _end(running, kills)
    while running:
        _end(running, kills)
    return True


def _reached(session: pytest.Session) -> tuple[dict[str, list[pytest.Item]], dict[str, float]]:
    """The tests that reach a function, by its name, and how long a test takes; one that fails by itself is left out."""
    from mutmut.mutation import trampoline  # noqa: PLC0415 - no dependency of the project

    found: dict[str, list[pytest.Item]] = {}
    seconds: dict[str, float] = {}
    for item in session.items:
        hits: set[str] = set()
        trampoline.record_trampoline_hit = lambda name, caller, hits=hits: hits.add(name)  # noqa: ARG005 - it is given
        trampoline.set_mutant_under_test("stats")
        before = time.process_time()
        _forget()
        failed = _fails(item)
        seconds[item.nodeid] = time.process_time() - before
        if failed:
            print(f"left out: {item.nodeid}", file=sys.__stderr__, flush=True)
        for name in hits if not failed else ():
            found.setdefault(name, []).append(item)
    trampoline.set_mutant_under_test("")
    return found, seconds


def _caches() -> list[Callable[[], None]]:
    """How to empty those of the modules that are imported by now; what is frozen is not found again."""
    packages = {name.split(".")[1] for name in NAMES.read_text().split()}
    if packages <= set(COMPILING_NOTHING):
        ours = tuple(f"statemachine_agent.{package}" for package in packages)
        found = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
        return [one.cache_clear for one in found if str(one.__module__).startswith(ours)]
    kept = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
    modules = [module for name, module in sys.modules.items() if name.startswith("statemachine_agent")]
    weak = [one for module in modules for one in vars(module).values() if isinstance(one, WeakValueDictionary)]
    ours = [one.cache_clear for one in kept if str(one.__module__).startswith(FORGOTTEN)]
    return [*ours, *(one.clear for one in weak)]


def _forget() -> None:
    for cache in CACHES:
        cache()


def _fails(item: pytest.Item) -> bool:
    """Whether a test fails, in whatever process and however often it was run."""
    item._initrequest()  # type: ignore[attr-defined]
    FAILED.clear()
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return bool(FAILED)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Kept, since the protocol does not give it back."""
    if report.failed:
        FAILED.append(report.nodeid)


def _start(mutant: str, tests: list[pytest.Item], seconds: float, running: dict[int, tuple[str, int]]) -> None:
    from mutmut.mutation import trampoline  # noqa: PLC0415 - no dependency of the project

    ours, theirs = os.pipe()
    child = os.fork()
    if child:
        os.close(theirs)
        running[child] = mutant, ours
        return
    code = 2
    try:
        signal.alarm(60 + 10 * int(seconds))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
        trampoline.set_mutant_under_test(mutant)
        _forget()
        killer = next((item.nodeid for item in tests if _fails(item)), None) if tests else "no test"
        os.write(theirs, json.dumps(killer).encode())
        code = 0
    finally:
        os._exit(code)


def _end(running: dict[int, tuple[str, int]], kills: Counter[tuple[str, str]]) -> None:
    child, status = os.waitpid(-1, 0)
    if child not in running:
        return
    mutant, ours = running.pop(child)
    with os.fdopen(ours) as pipe:
        told = pipe.read()
    killer = json.loads(told) if told else f"ended with {status}"
    if killer is not None:
        kills[mutant.partition("__mutmut_")[0], killer] += 1
    with REPORT.open("a") as report:
        report.write(json.dumps({"mutant": mutant, "killer": killer}) + "\n")


def make(paths: list[Path]) -> list[str]:
    """Write the mutants of these files into them; their names."""
    from mutmut.mutation.file_mutation import mutate_file_contents  # noqa: PLC0415 - no dependency of the project

    names: list[str] = []
    for path in paths:
        made = mutate_file_contents(str(path), path.read_text())
        if made.mutant_names:
            path.write_text(made.code)
        module = ".".join(path.with_suffix("").parts)
        names += [f"{module}.{name}" for name in made.mutant_names]
    return names


def shown(mutant: str) -> str:
    """What a mutant changes."""
    module, _, name = mutant.rpartition(".")
    text = Path(*module.split(".")).with_suffix(".py").read_text()
    original = name.partition("__mutmut_")[0] + "__mutmut_orig"
    found: dict[str, Any] = {n.name: n for n in ast.walk(ast.parse(text)) if hasattr(n, "name")}
    was, now = (ast.unparse(found[n]).splitlines() for n in (original, name))
    changed = [
        line for line in difflib.unified_diff(was[1:], now[1:], n=0, lineterm="") if line[:3] not in ("---", "+++")
    ]
    return "\n".join([mutant, *(line for line in changed if line[0] != "@")])


if __name__ == "__main__":
    if sys.argv[1] == "show":
        print("\n\n".join(shown(name) for name in sys.argv[2:]))
    else:
        print("\n".join(make([Path(arg) for arg in sys.argv[1:]])))
