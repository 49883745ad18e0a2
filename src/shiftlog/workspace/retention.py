"""Which checkpoints may go: automatic ones beyond the limit that nobody can still ask for."""

from collections.abc import Collection, Sequence

from shiftlog.workspace import history
from shiftlog.workspace.ports import Record, Saved


def droppable(
    records: Sequence[Record], stored: Collection[str], kept: int, open_sessions: Collection[str]
) -> list[str]:
    """Return the stored checkpoints that may be removed, oldest first.

    Manual ones, the current position and those tied to turns of open sessions stay, whatever their number.
    """
    here = history.position(records)
    tied = {
        record.checkpoint_id
        for record in records
        if isinstance(record, Saved)
        and record.cause.request_id is not None
        and record.cause.session_id in open_sessions
    }
    if here is not None:
        tied.add(here.checkpoint_id)
    automatic = [
        saved.checkpoint_id
        for saved in history.checkpoints(records)
        if saved.kind != "manual" and saved.checkpoint_id in stored
    ]
    surplus = automatic[: max(0, len(automatic) - kept)]
    return [checkpoint_id for checkpoint_id in surplus if checkpoint_id not in tied]
