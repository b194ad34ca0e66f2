"""What an expression could make too large, told when it is read; and what it takes when it is asked all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

from statemachine_agent.definition.schema import Property
from statemachine_agent.guards import types
from statemachine_agent.guards.contexts import NOW
from statemachine_agent.guards.growth import Excess, excesses
from support import forks

_TEXT, _WHOLE = Property(type="string"), Property(type="integer")
_ITEM = Property(
    type="object",
    properties={"n": _WHOLE, "t": _TEXT, "at": _TEXT, "o": Property(type="object", properties={"n": _WHOLE, "t": _TEXT}),
                "s": Property(type="array", items=_TEXT), "free": Property(type="object")},
)  # fmt: skip
ROOTS = {
    "now": NOW,
    "input": {
        "n": _WHOLE, "x": Property(type="number"), "t": _TEXT, "u": _TEXT, "b": Property(type="boolean"),
        "l": Property(type="array", items=_ITEM), "m": Property(type="array", items=_ITEM),
        "s": Property(type="array", items=_TEXT), "k": Property(type="array", items=_WHOLE),
        "long": Property(type="array", items=_ITEM, maxItems=5000), "texts": Property(type="array", items=_TEXT, maxItems=5000),
        "few": Property(type="array", items=_ITEM, maxItems=5),
        "free": Property(type="object"), "lists": Property(type="array", items=Property(type="array")),
        "o": Property(type="object", properties={"n": _WHOLE, "t": _TEXT}),
    },
    "effects": Property(type="array", items=_ITEM),
}  # fmt: skip


def found(text: str, *, uncertain: bool = False) -> list[Excess]:
    environment, known = types.environment(ROOTS)
    return excesses(environment.compile(text).checked, known, uncertain=uncertain)


@pytest.mark.parametrize(
    "text",
    [
        "input.l.filter(p, p.t == 'x').size() >= 2",
        "input.l.exists(p, p.n > 1 && input.m.exists(q, timestamp(q.at) < timestamp(p.at)))",
        "effects.exists(e, e.t == 'x' && e.t in ['a', 'b'])",
        "effects.filter(e, e.n > 1).size() == 0",
        "effects.exists(e, e.t in [e.o.t, input.t])",
        "input.k.map(n, n * 2 + 1).exists(n, n - 1 == 3)",
        "input.l.map(p, p.n + p.o.n).all(n, n > 0)",
        "input.l.map(p, p.n > 1, p.t).exists(t, t == 'x')",
        "input.l.map(p, p.o).exists(o, o.t == 'x')",
        "input.l.map(p, p.s[0]).exists(t, t == 'x')",
        "input.l.map(p, string(p.n)).exists(t, t == '1')",
        "input.l.map(p, p.n > 1 ? p.t : 'none').exists(t, t == 'x')",
        "input.l.map(p, duration('1h') + timestamp(p.at)).all(t, t < now)",
        "input.l.exists_one(p, p.n + 1 == 2)",
        "input.l.all(p, p.free.a + 1 == 2 && int(p.free.a) + int(p.free.b) == 2)",
        "input.l.filter(p, p.n > 1).map(p, p.t).filter(t, t != '').size() == 1",
        "input.l.exists(p, p.s.filter(t, t == 'x').size() > 1)",
        "(input.b ? input.s : [input.t]).filter(t, t > '1').size() > 1",
        "input.few.filter(p, p.n > 1).size() > 1",
        "input.long.exists(p, p.n > 1)",
        "input.free.list.exists(p, p.n > 1)",
        "['a', 'b'].all(t, t in input.s)",
        "[input.t, input.u].exists(t, t == 'x')",
        "[input.o].exists(o, o.n == 1)",
        "input.t + '-' + input.u == 'x' && now + duration('2h') > now",
        "(input.s + input.s).exists(t, t == 'x')",
        "{'a': input.l.filter(p, p.n > 1)}.a.size() == 1",
        "[[1, 2], [3]][0] == [1, 2]",
        "[input.l.map(p, p.n).size()].exists(n, n > 1)",
        "input.l.map(p, dyn(p.t)).size() > 0",
        "input.t in [" + ", ".join(f"'{n}'" for n in range(900)) + "]",
    ],
)
def test_what_computes_and_compares_is_legal(text: str) -> None:
    assert found(text) == []


HOSTILE = {
    "input.k.exists(n, [" + ", ".join(map(str, range(200))) + "].exists(m, m == n))": "too much is written in lists",
    "input.k.exists(n, (input.b ? [1, 2] : [3]).exists(m, m == n))": "a list or map is made at every turn",
    "input.l.filter(p, [p.t] == ['x']).size() > 0": "a list or map is made at every turn",
    "input.k.exists(n, n in [[n].size(), 2])": "a list or map is made at every turn",
    "(input.b ? input.texts : input.s).filter(t, t != '').size() > 1": "and this can have 5000",
    "(input.b ? input.free.list : input.s).filter(t, true).size() > 1": "and this can be anything",
    "input.l.map(p, p.n > 1 ? input.t : p.t).size() > 0": "`map` makes more of an element than a part of it",
    "['x'].map(a, a + a)" + ".map(a, a + a)" * 20 + ".size() > 0": "`+` within a loop is for numbers and times",
    "[[1]].map(a, a + a)" + ".map(a, a + a)" * 20 + ".size() > 0": "`+` within a loop is for numbers and times",
    "[b'x'].map(a, a + a)" + ".map(a, a + a)" * 20 + ".size() > 0": "`+` within a loop is for numbers and times",
    "[dyn('x')].map(a, a + a)" + ".map(a, a + a)" * 20 + ".size() > 0": "and these can be anything",
    "input.l.all(p, (input.t + p.t).size() > 0)": "`+` within a loop is for numbers and times",
    "input.l.all(p, p.free.a + p.free.b == 'x')": "and these can be anything",
    "input.l.exists(p, input.m.exists(q, p.t + q.t == 'x'))": "`+` within a loop is for numbers and times",
    "[1].map(a, [a, a])" + ".map(a, [a, a])" * 20 + ".size() > 0": "a list or map is made at every turn",
    "[1].map(a, {'a': a, 'b': a})" + ".map(a, {'a': a, 'b': a})" * 20 + ".size() > 0": "a list or map is made at every turn",
    "[input.l.map(p, p.n)].exists(v, input.l.exists(p, v == v))": "a loop goes over lists that are made in a list",
    "[[input.l.map(p, p.n)][0]].exists(v, v == v)": "a loop goes over lists that are made in a list",
    "[input.b ? [1] : [2]].exists(v, v == v)": "a loop goes over lists that are made in a list",
    "[dyn([1])].exists(v, v == v)": "a loop goes over lists that are made in a list",
    "input.l.map(p, input.m)== []": "`map` makes more of an element than a part of it",
    "input.l.map(p, input.m.map(q, q.n)).size() > 0": "`map` makes more of an element than a part of it",
    "input.l.map(p, input.t).size() > 0": "`map` makes more of an element than a part of it",
    "input.l.map(p, bytes(p.t)).size() > 0": "a guard has no use for `bytes`",
    "bytes(input.t).size() > 0": "a guard has no use for `bytes`",
    " + ".join(["input.t"] * 10) + " == 'x'": "more than 8 texts or lists are joined",
    "(" + " + ".join(["input.l"] * 10) + ").size() > 3": "more than 8 texts or lists are joined",
    "input.k.exists(n, n in [" + ", ".join(map(str, range(200))) + "])": "too much is written in lists",
    "input.k.exists(n, " + " || ".join("n in [" + ", ".join(map(str, range(30))) + "]" for _ in range(6)) + ")":
        "too much is written in lists",
    "[" + ", ".join(["1"] * 3000) + "].map(n, n).size() > 1": "too much is written in lists",
    "[" + ", ".join(["input.o"] * 120) + "].exists(o, o.n > 1)": "too much is written in lists",
    "input.long.filter(p, p.n > 1).size() > 1": "over lists of at most 1000 elements, and this can have 5000",
    "(input.b ? input.s : input.texts).filter(t, t != '').size() > 1": "and this can have 5000",
    "input.free.list.filter(p, true).size() > 1": "and this can be anything",
    "input.lists[0].filter(p, true).size() > 1": "and this can be anything",
    "(input.l + input.l).filter(p, p.n > 1).size() > 1": "and this can be anything",
    "[input.long].exists(effects, effects.filter(p, p.n > 1).size() > 1)": "and this can be anything",
    "dyn(input.long).filter(p, p.n > 1).size() > 1": "and this can be anything",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), HOSTILE.items(), ids=[text[:60] for text in HOSTILE])
def test_what_could_grow_is_refused(text: str, message: str) -> None:
    excess = found(text)
    assert any(message in one.message for one in excess), excess
    assert all(one.advice and len(one.message) < 160 for one in excess)


def test_the_place_is_that_of_what_grows() -> None:
    text = "input.b && input.l.all(p, p.t + 'x' == 'x')"
    assert [text[one.offset] for one in found(text)] == ["+"]
    text = "input.b && input.l.map(p, input.t).size() > 0"
    assert [text[one.offset :].startswith(".t)") for one in found(text)] == [True]


def test_what_nobody_knows_is_no_fault_while_a_manifest_is_missing() -> None:
    """It is told of elsewhere; what is known to grow is told all the same."""
    unknown = "input.free.list.filter(p, true).size() > 1 && input.l.all(p, p.free.a + p.free.b == 'x')"
    assert len(found(unknown)) == 2
    assert found(unknown, uncertain=True) == []
    assert found("['x'].map(a, a + a).size() > 0", uncertain=True)


#: asks an expression over the largest data that a schema lets in, and prints by how many megabytes the process grew
ASK = """
import datetime, resource, sys
from statemachine_agent.guards import cel
limit = 3 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
item = {"n": 1, "t": "x" * 100, "at": "2026-10-28T11:00:00Z", "o": {"n": 1, "t": "y"}, "s": ["z"] * 10, "free": {"a": 1, "b": 1}}
data = {
    "now": datetime.datetime.now(datetime.UTC), "effects": [item] * 1000,
    "input": {"n": 1, "x": 1.0, "t": "x" * 262_144, "u": "y", "b": True, "l": [item] * 1000, "m": [item] * 1000,
              "s": ["a"] * 1000, "k": list(range(1000)), "few": [item] * 5, "long": [item] * 5000,
              "free": {"list": [item] * 10_000}, "lists": [[1]], "o": {"n": 1, "t": "t"}},
}
compiled = cel.evaluator(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    compiled.value(data)
except cel.EvaluationError as problem:
    print(problem.message, file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""

#: the worst of what is legal: each is as long, as deep, or as often asked as the rules and the library let it be
WORST = [
    "input.l" + ".map(p, p)" * 9 + ".size() > 0",
    "input.l.exists(p, input.m.filter(q, true).size() == 0)",
    "input.k.all(n, !(n in [" + ", ".join(str(-n) for n in range(1, 100)) + "]))",
    "input.long.all(p, input.long.all(q, p.t == q.t))",
    "(" + " + ".join(["input.t"] * 9) + ").size() > 0",
    "(" + " + ".join(["input.l"] * 9) + ").exists(p, p.n > 1)",
    "input.l.map(p, string(p.t)).map(t, t).map(t, t).exists(t, t == input.t)",
    "input.free.list.all(p, p.free.a + 1 == 2)",
    "input.l.map(p, p.o) == input.l.map(p, p.o)",
]


@pytest.mark.parametrize("text", WORST, ids=[text[:60] for text in WORST])
def test_the_worst_that_is_legal_stays_small(text: str) -> None:
    """In a process of its own, which may not have more than it says."""
    assert found(text) == []
    done = forks.run([sys.executable, "-c", ASK, text], check=True)
    assert int(done.stdout) < 256, done


def test_what_is_refused_would_have_been_large() -> None:
    """The limit of the process is reached: the test above could fail."""
    text = "['x']" + ".map(a, a + a + a + a)" * 20 + ".size() > 0"
    done = subprocess.run([sys.executable, "-c", ASK, text], capture_output=True, text=True, check=False)
    assert done.returncode != 0 or "bad_alloc" in done.stderr or int(done.stdout) > 1000, done
