"""One manifest against the others: what makes a write safe to run is promised, and the promise can be kept."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from statemachine_agent.definition import references
from statemachine_agent.definition.check_binding import check_binding
from statemachine_agent.definition.check_given import check_given
from statemachine_agent.definition.document import Document, Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.manifest import ERROR_CLASSES, UNSETTLED, Http, Reconcile, ToolManifest
from statemachine_agent.definition.names import CEL_WORDS, is_reserved
from statemachine_agent.definition.redaction import field_at
from statemachine_agent.definition.schema import Properties, Property
from statemachine_agent.definition.template import KeyTemplate, UrlTemplate, variables_in
from statemachine_agent.text import did_you_mean, nearest

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue, ToolFile

_TEXT = Property(type="string")
#: what a manifest may read of the effect itself
EFFECT: Properties = {"key": _TEXT, "tool": _TEXT}


def check_tool(catalogue: Catalogue, file: ToolFile) -> list[Fault]:
    """The faults of one manifest."""
    document, tool = file.document, file.manifest
    faults: list[Fault] = []
    if is_reserved(tool.tool) or tool.tool in CEL_WORDS:
        faults.append(document.fault(("tool",), f"`{tool.tool}` is a word of the language", "choose another name"))
    faults += _errors(document, tool)
    if tool.binding.python and "call" in tool.args:
        message = "a Python function is given its request as `call`, and no argument can be called so"
        faults.append(document.fault(("args", "call"), message, "choose another name", key=True))
    faults += _effect(document, tool)
    faults += _redact(document, tool)
    faults += _approval(catalogue, document, tool)
    if tool.binding.http:
        faults += _http(catalogue, document, tool, tool.binding.http)
    else:
        faults += check_binding(document, tool)
    faults += _lookups(catalogue, document, tool)
    return faults


_NO_ANSWER = re.compile(r"http_(?!429)[34][0-9][0-9]")


def _errors(document: Document, tool: ToolManifest) -> list[Fault]:
    """A declared no is an answer: it says what happened, and asking again would not change it."""
    faults = []
    for status, name in tool.errors.items():
        path: Path_ = ("errors", str(status))
        if not tool.is_read and UNSETTLED.fullmatch(str(status)):
            message = f"HTTP {status} does not say that nothing happened, and of a write `errors` says that"
            faults.append(
                document.fault(path, message, "remove it: the outcome is `unknown`, and is looked up", key=True)
            )
        if name in ERROR_CLASSES:
            message = f"`{name}` is what a call without a usable answer fails with"
            faults.append(document.fault(path, message, "give this answer a name of its own"))
    answers = {*tool.errors.values(), *(f"http_{status}" for status in tool.errors)}
    for index, error in enumerate(tool.retry.errors):
        if error in ERROR_CLASSES:
            continue
        if error in answers:
            message, advice = f"`{error}` is an answer, as `errors` says", "remove it: it would be the same again"
        elif not _NO_ANSWER.fullmatch(error):
            message, advice = f"no call fails with `{error}`", did_you_mean(error, ERROR_CLASSES)
        else:
            continue
        faults.append(document.fault(("retry", "errors", index), message, advice))
    return faults


def _redact(document: Document, tool: ToolManifest) -> list[Fault]:
    faults = []
    for index, path in enumerate(tool.redact):
        args = path.startswith("args.")
        field = field_at(tool.args if args else tool.returns, path.removeprefix("args." if args else "result."))
        if args and not tool.is_read:
            message = f"`{path}` of a write is masked, and what it does is told by its arguments"
            faults.append(document.fault(("redact", index), message, "remove it"))
        elif field is None and args and not document.incomplete(("args",)):
            faults.append(document.fault(("redact", index), f"there is no argument `{path[5:]}`", "name one of `args`"))
        elif field is None and not args and not document.incomplete(("returns",)):
            faults.append(document.fault(("redact", index), f"the result has no `{path}`", "name a field of `returns`"))
        elif field is not None and field.kind != "string":
            message = f"`{path}` is {field.kind}, and only texts are masked"
            advice = "remove it" if args else "leave it out of `returns` instead"
            faults.append(document.fault(("redact", index), message, advice))
    return faults


def _effect(document: Document, tool: ToolManifest) -> list[Fault]:
    def fault(path: Path_, message: str, advice: str) -> Fault:
        return document.fault(path, message, advice, key=True)

    faults = []
    given = set(document.data) if isinstance(document.data, dict) else set()
    if tool.is_read:
        faults += [
            fault((key,), f"`{key}` stands in a read", "remove it, or say `effect: write`")
            for key in ("idempotency", "precondition", "approval")
            if key in given
        ]
        if tool.touches is not None and tool.touches.writes:
            faults.append(
                fault(("touches", "writes"), "a read writes nothing", "write `reads`, or say `effect: write`")
            )
        if tool.retry.unsent:
            faults.append(fault(("retry", "unsent"), "`unsent` is for writes", "a read has `attempts`"))
        return faults
    faults += [
        fault((key,), f"`{key}` stands in a write", "it belongs to reads: remove it")
        for key in ("fresh_for", "polling")
        if key in given
    ]
    if tool.retry.attempts:
        faults.append(fault(("retry", "attempts"), "a write is never simply repeated", "a write has `unsent`"))
    if tool.idempotency is None and document.incomplete(("idempotency",)):
        return faults
    if tool.idempotency is None:
        advice = "add `idempotency: {key: …, reconcile: …}` with a key made of business fields"
        faults.append(fault(("effect",), f"`{tool.tool}` changes the world without `idempotency.key`", advice))
        return faults
    if tool.effect == "write" and not tool.can_be_looked_up and not document.incomplete(("idempotency",)):
        advice = "add `reconcile:` or `replay: true`; without either it can only be `effect: irreversible`"
        faults.append(fault(("idempotency",), f"`{tool.tool}` has a key and no way to look it up", advice))
    return faults + _key(document, tool, tool.idempotency.template)


def _key(document: Document, tool: ToolManifest, template: KeyTemplate) -> list[Fault]:
    faults = []
    here: Path_ = ("idempotency", "key")
    if not template.holes:
        advice = "name the arguments that make an action the same action: `{isbn}`"
        faults.append(document.fault(here, "the key is the same for every call", advice))
    for name, hashed in dict.fromkeys(template.holes):
        if name in document.left_out(("args",)):
            continue
        declared = tool.args.get(name)
        if declared is None:
            advice = did_you_mean(name, tool.args)
            faults.append(document.fault(here, f"the key names `{name}`, which is no argument", advice))
        elif declared.optional:
            message = f"the key names `{name}`, which is optional"
            faults.append(document.fault(here, message, "make the argument required"))
        elif declared.kind in ("array", "object") and not hashed:
            message = f"`{name}` is a {_KINDS[declared.kind]} and cannot stand in a key"
            faults.append(document.fault(here, message, f"write `{{{name}|sha256}}`"))
    return faults


def _approval(catalogue: Catalogue, document: Document, tool: ToolManifest) -> list[Fault]:
    if tool.is_read:
        return []
    if tool.approval is None and document.incomplete(("approval",)):
        return []
    if tool.approval is None:
        message = f"`{tool.tool}` does not say who must approve it"
        return [document.fault(("effect",), message, "add rules under `approval:`, or `approval: []` if nobody must")]
    faults = []
    one_without_when = len(tool.approval) == 1 and tool.approval[0].when is None
    if tool.effect == "irreversible" and not one_without_when and not document.incomplete(("approval",)):
        message = "what cannot be undone is always approved"
        faults.append(document.fault(("approval",), message, "write exactly one rule, without `when`", key=True))
    for index, rule in enumerate(tool.approval):
        for position, role in enumerate(rule.by):
            if catalogue.lacks_role(role):
                advice = did_you_mean(role, catalogue.people.roles if catalogue.people else ())
                path: Path_ = ("approval", index, "by", position)
                faults.append(document.fault(path, f"nobody has the role `{role}`", advice))
    return faults


_KINDS = {"array": "list", "object": "mapping"}


def _http(catalogue: Catalogue, document: Document, tool: ToolManifest, http: Http) -> list[Fault]:
    here: Path_ = ("binding", "http")
    faults = _address(document, tool, http.template)
    needed: dict[str, Path_] = dict.fromkeys(http.template.variables, (*here, "url"))
    for header, value in http.headers.items():
        needed = dict.fromkeys(variables_in(value), (*here, "headers", header)) | needed
    for name, path in needed.items():
        if catalogue.variables is not None and name not in catalogue.variables:
            near = nearest(name, catalogue.variables)
            advice = f"did you mean `{near}`?" if near else "list it under `variables` in the settings"
            faults.append(document.fault(path, f"`${{{name}}}` is not a variable of the settings", advice))
    faults += _token(catalogue, document, http)
    if tool.is_read and http.idempotency_header:
        message = "a read has no key to send"
        faults.append(document.fault((*here, "idempotency_header"), message, "remove it", key=True))
    if not tool.is_read and not http.idempotency_header and not document.incomplete(here):
        message = "the service is never told the key"
        faults.append(document.fault(here, message, "add `idempotency_header: Idempotency-Key`", key=True))
    if tool.is_read and http.method not in ("GET", "POST"):
        message = f"a {http.method} changes something, and `{tool.tool}` is a read"
        faults.append(document.fault((*here, "method"), message, "write GET, or POST for a search; else it is a write"))
    if not tool.is_read and http.method == "GET" and not document.incomplete(here):
        faults.append(document.fault((*here, "method"), "a GET changes nothing", "write POST, PUT, PATCH or DELETE"))
    return faults


def _token(catalogue: Catalogue, document: Document, http: Http) -> list[Fault]:
    """The source of the access token exists, and nothing else fills the header that it goes into."""
    if http.oauth2 is None:
        return []
    faults = []
    here: Path_ = ("binding", "http")
    known = catalogue.token_sources
    if known is not None and http.oauth2 not in known:
        near = nearest(http.oauth2, known)
        advice = f"did you mean `{near}`?" if near else f"add `[oauth2.{http.oauth2}]` to the settings"
        faults.append(document.fault((*here, "oauth2"), f"`{http.oauth2}` is no token source of the settings", advice))
    for header in (*http.headers, http.idempotency_header or ""):
        if header.lower() == "authorization":
            message = "the token of `oauth2` goes into `Authorization`, and so does this"
            at = (*here, "headers", header) if header in http.headers else (*here, "idempotency_header")
            faults.append(document.fault(at, message, "keep one of them", key=True))
    return faults


def _address(document: Document, tool: ToolManifest, template: UrlTemplate) -> list[Fault]:
    faults = []
    here: Path_ = ("binding", "http", "url")
    for name in dict.fromkeys(template.names):
        declared = tool.args.get(name)
        if name in document.left_out(("args",)):
            continue
        if declared is None:
            advice = did_you_mean(name, tool.args)
            faults.append(document.fault(here, f"the address names `{name}`, which is no argument", advice))
        elif declared.kind in ("array", "object"):
            message = f"`{name}` is a {_KINDS[declared.kind]} and cannot stand in an address"
            faults.append(document.fault(here, message, "send it in the body: leave it out of the address"))
        elif declared.optional and name in template.segments:
            message = f"`{name}` is optional, and a path segment cannot be left away"
            faults.append(document.fault(here, message, "make the argument required, or put it into the query"))
    return faults


def _lookups(catalogue: Catalogue, document: Document, tool: ToolManifest) -> list[Fault]:
    faults = []
    for path, what in ((("idempotency", "reconcile"), tool.reconciler), (("precondition",), tool.precondition)):
        if what is None:
            continue
        if not catalogue.knows_tool(what.tool):
            advice = did_you_mean(what.tool, catalogue.tools)
            faults.append(document.fault((*path, "tool"), f"there is no tool `{what.tool}`", advice))
        other = catalogue.tool(what.tool)
        if other is None:
            continue
        if not other.is_read:
            message = f"`{what.tool}` is no read, and a look-up must change nothing"
            faults.append(document.fault((*path, "tool"), message, "name a read"))
        known = {"args": tool.args, "effect": EFFECT}
        here: Path_ = (*path, "with")
        wrong = check_given(document, here, what.given, other.args, known, references.MANIFEST_ROOTS)
        if not wrong and isinstance(what, Reconcile) and not _particular(what) and not document.incomplete(here):
            where = here if document.at(here) is not None else path
            message = f"`{what.tool}` is not asked about this effect"
            wrong = [document.fault(where, message, "fill an argument with `effect.key`, or from `args`", key=True)]
        faults += wrong
    return faults


def _particular(reconcile: Reconcile) -> bool:
    """True where what is asked depends on which effect it is."""
    parsed = [references.parse(value, references.MANIFEST_ROOTS) for value in reconcile.given.values()]
    asked = [(value.root, *value.steps[:1]) for value in parsed if isinstance(value, references.Reference)]
    return any(root == "args" or (root, *steps) == ("effect", "key") for root, *steps in asked)
