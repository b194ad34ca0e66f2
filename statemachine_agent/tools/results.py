"""What a service answered, made evidence or refused: parsed strictly, reduced to the declared fields, checked by schema.

It must not know how the bytes came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from statemachine_agent.canonical import canonical
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.redaction import masked
from statemachine_agent.definition.schema import holds_untrusted, project
from statemachine_agent.errors import CanonicalError, SmaError
from statemachine_agent.text import one_line, said_by
from statemachine_agent.tools.arguments import as_json, faults_of
from statemachine_agent.tools.outcome import Ok
from statemachine_agent.tools.withheld import Withheld


class BadResultError(SmaError):
    """The answer is not what the manifest promises."""

    reason = "bad_result"


def parse(body: bytes) -> object:
    """Strict JSON; BadResultError for anything else."""
    try:
        return json.loads(body, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as problem:
        text = "is nested too deeply" if isinstance(problem, RecursionError) else "is not JSON"
        raise BadResultError(f"the answer {text}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice, and nobody can say which value counts")
    return found


def accept(manifest: ToolManifest, raw: object) -> Ok:
    """`raw` as evidence of this tool; BadResultError where it does not fit `returns` or is too large for a read."""
    if not isinstance(raw, Mapping):
        raise BadResultError(f"the answer is no object but {type(raw).__name__}")
    try:
        found: Any = project(manifest.returns, as_json(project(manifest.returns, raw)))
    except CanonicalError as problem:
        told = f"a value in it {problem.problem}" if manifest.redact else problem.message
        raise BadResultError(f"the answer cannot be kept: {told}") from None
    faults = faults_of(manifest.returns, found)
    if faults:
        told = "; ".join(
            f.path if manifest.redact else str(f) for f in faults
        )  # a complaint may quote what it is about
        raise BadResultError(f"the answer does not fit `returns`: {told}")
    found = masked(manifest.masked_results, found)
    text = canonical(found)
    if len(text) > manifest.max_bytes:
        if manifest.is_read:
            raise too_large(manifest, text)
        found = _fitted(found, manifest.max_bytes)
    return Ok(found, len(text))


def too_large(
    manifest: ToolManifest, body: bytes, *, size: int | None = None, whole: bool = True, secrets: Withheld | None = None
) -> BadResultError:
    """A read whose answer is over its limit: what is told is head, tail and size; of one with masked fields only the size.

    Of an answer that was not read to its end there is no tail, and its size is what it announced (`size`), if anything.
    """
    limit = manifest.max_bytes
    secrets = secrets or Withheld()
    head, tail = secrets.head(body, 200), secrets.tail(body, 200) if whole else ""
    bytes_ = str(len(body)) if whole else str(size) if size else f"more than {len(body)}"
    text = "" if manifest.redact else f": {head} … {tail}".rstrip()
    return BadResultError(f"the answer has {bytes_} bytes, more than {limit}{text}", reason="too_large")


def _fitted(receipt: Any, limit: int) -> Any:
    """A receipt that is too large, its longest texts cut, so that its outcome is kept; ids and the like stay whole."""
    longest = limit // 2
    found = _cut(receipt, longest)
    while len(canonical(found)) > limit and longest > _SHORT:
        longest = max(_SHORT, longest // 2)
        found = _cut(receipt, longest)
    return found


_SHORT = 64


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else value[:longest] + "…"
    if isinstance(value, dict):
        return {k: _cut(v, longest) for k, v in value.items()}
    if isinstance(value, list):
        return [_cut(v, longest) for v in value[:longest]]
    return value


def said(manifest: ToolManifest, problem: BaseException) -> str:
    """An exception for the record; of a tool that masks something only its name, since its text may quote anything."""
    if not manifest.redact:
        return said_by(problem)
    return f"{one_line(type(problem).__name__)}; its text is not shown, since the tool has fields that are masked"


def trust_of(manifest: ToolManifest) -> str:
    """`system`, or `mixed` where a result holds free text from outside."""
    return "mixed" if any(holds_untrusted(value) for value in manifest.returns.values()) else "system"
