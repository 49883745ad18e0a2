"""Lineage of imported sessions: children hang on the turn and call of their parent, whichever side comes first.

Either side leaves what it knows under the names by which the other will ask; when both are known the child gets its
parent and the parent's turn a pointer to the child.
"""

from collections.abc import Iterator
from typing import Any

from shiftlog.store.incoming import SessionName

Document = dict[str, Any]


def child_names(name: SessionName, body: Document) -> Iterator[str]:
    """Yield the names under which a parent may speak of a child, the most telling first."""
    if name.agent_id is not None:
        yield f"agent:{name.vendor_id}:{name.agent_id}"
    else:
        yield f"thread:{name.vendor_id}"
    parent: Document = body.get("parent") or {}
    run_id = parent.get("run_id")
    if run_id:
        yield f"run:{parent.get('vendor_session')}:{run_id}"


def link_names(name: SessionName, body: Document) -> Iterator[str]:
    """Yield the names of the children that a link of a parent speaks of."""
    if body.get("child_agent_id"):
        yield f"agent:{name.vendor_id}:{body['child_agent_id']}"
    if body.get("child_thread_id"):
        yield f"thread:{body['child_thread_id']}"
    if body.get("run_id"):
        yield f"run:{name.vendor_id}:{body['run_id']}"


def better(known: Document | None, found: Document) -> bool:
    """Tell whether a link says more than the one known: by its rank, else by naming a turn."""
    if known is None:
        return True
    if found["rank"] != known["rank"]:
        return found["rank"] < known["rank"]
    return bool(found.get("turn")) and not known.get("turn")
