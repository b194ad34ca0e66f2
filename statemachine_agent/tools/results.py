"""What a service answered, made evidence or refused: parsed strictly, reduced to the declared fields, checked by schema.

It must not know how the bytes came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from statemachine_agent.canonical import canonical, plain
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.schema import project
from statemachine_agent.errors import CanonicalError, SmaError
from statemachine_agent.tools.arguments import faults_of
from statemachine_agent.tools.outcome import Ok


class BadResultError(SmaError):
    """The answer is not what the manifest promises."""

    reason = "bad_result"


def parse(body: bytes) -> object:
    """Strict JSON; BadResultError for anything else."""
    try:
        return json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        text = "is nested too deeply" if isinstance(problem, RecursionError) else "is not JSON"
        raise BadResultError(f"the answer {text}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def accept(manifest: ToolManifest, raw: object) -> Ok:
    """`raw` as evidence of this tool; BadResultError where it does not fit `returns` or is too large for a read."""
    if not isinstance(raw, Mapping):
        raise BadResultError(f"the answer is no object but {type(raw).__name__}")
    try:
        found: Any = plain(project(manifest.returns, raw))
    except CanonicalError as problem:
        raise BadResultError(f"the answer cannot be kept: {problem.message}") from None
    faults = faults_of(manifest.returns, found)
    if faults:
        raise BadResultError("the answer does not fit `returns`: " + "; ".join(map(str, faults)))
    size = len(canonical(found))
    if size > manifest.max_bytes:
        if manifest.is_read:
            raise too_large(canonical(found), size, manifest.max_bytes)
        found = _cut(found, manifest.max_bytes)
    return Ok(found, size)


def too_large(body: bytes, size: int, limit: int) -> BadResultError:
    """A read whose answer is over its limit: what is kept is head, tail and size."""
    head, tail = body[:200].decode(errors="replace"), body[-200:].decode(errors="replace")
    return BadResultError(f"the answer has {size} bytes, more than {limit}: {head} … {tail}", reason="too_large")


def _cut(value: Any, limit: int) -> Any:
    """A receipt whose long texts are cut, so that its outcome is kept."""
    longest = max(64, limit // 16)
    if isinstance(value, str):
        return value if len(value) <= longest else value[:longest] + "…"
    if isinstance(value, dict):
        return {k: _cut(v, limit) for k, v in value.items()}
    if isinstance(value, list):
        return [_cut(v, limit) for v in value[:100]]
    return value


def trust_of(manifest: ToolManifest) -> str:
    """`system`, or `mixed` where a result holds free text from outside."""
    return "mixed" if _has_untrusted(manifest.returns) else "system"


def _has_untrusted(properties: Mapping[str, Any]) -> bool:
    return any(
        p.untrusted
        or (p.properties and _has_untrusted(p.properties))
        or (p.items and (p.items.untrusted or (p.items.properties and _has_untrusted(p.items.properties))))
        for p in properties.values()
    )
