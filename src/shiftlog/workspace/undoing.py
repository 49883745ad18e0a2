"""Which commands changed a workspace, newest last, as far as its records say: what an undo of N commands goes back to.

Pure functions over records. A restore goes back in this list as it does in the workspace, so that undoing again undoes
what came before, and going back to a safety checkpoint brings the undone commands back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shiftlog.workspace.ports import Record, Restored, Saved


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedBy:
    """A command after which the workspace was not what it was before; `checkpoint_id` holds it as it was before."""

    command_id: str
    checkpoint_id: str
    tree: str


def changing_commands(records: Sequence[Record], tree: str | None = None) -> tuple[ChangedBy, ...]:
    """Return the commands whose changes are in the workspace now, oldest first; `tree` is the workspace now.

    Without `tree` the last command counts as one that changed something.
    """
    done: tuple[ChangedBy, ...] = ()
    before: dict[str, tuple[ChangedBy, ...]] = {}
    for record in records:
        if isinstance(record, Restored):
            if not record.paths:
                done = before.get(record.checkpoint_id, done)
            continue
        done = _settled(done, record.tree)
        before.setdefault(record.checkpoint_id, done)
        if record.cause.command_id is not None and record.kind == "auto":
            done = (*done, _changed_by(record, record.cause.command_id))
    return done if tree is None else _settled(done, tree)


def _settled(done: tuple[ChangedBy, ...], tree: str) -> tuple[ChangedBy, ...]:
    """Leave out the last command where the workspace is afterwards as it was before it."""
    return done[:-1] if done and done[-1].tree == tree else done


def _changed_by(saved: Saved, command_id: str) -> ChangedBy:
    return ChangedBy(command_id=command_id, checkpoint_id=saved.checkpoint_id, tree=saved.tree)
