"""Which commands an undo counts: those that changed something, back and forth through restores."""

from datetime import UTC, datetime, timedelta

from shiftlog.workspace.history import changes_made
from shiftlog.workspace.ports import Cause, CheckpointKind, Record, Restored, Saved

START = datetime(2026, 1, 1, tzinfo=UTC)


def saved(
    number: int, tree: str, command: str | None = None, kind: CheckpointKind = "auto", *, reused: bool = False
) -> Saved:
    return Saved(
        checkpoint_id=f"c{number}",
        tree=tree,
        kind=kind,
        label="",
        at=START + timedelta(seconds=number),
        cause=Cause(command_id=command),
        reused=reused,
    )


def restored(number: int, paths: tuple[str, ...] = ()) -> Restored:
    return Restored(checkpoint_id=f"c{number}", safety_checkpoint_id="", at=START, paths=paths)


def commands(records: list[Record]) -> list[str]:
    return [one.name for one in changes_made(records)]


HISTORY: list[Record] = [
    saved(1, "A", kind="open"),
    saved(1, "A", "#1", reused=True),
    saved(2, "B", "#2"),
    saved(2, "B", "#3", reused=True),
    saved(3, "C", "#4"),
]


def test_a_command_after_which_the_tree_is_the_same_does_not_count() -> None:
    assert commands(HISTORY) == ["#1", "#3", "#4"]
    assert commands([]) == []


def test_a_restore_takes_commands_back_and_its_safety_checkpoint_brings_them_again() -> None:
    undone: list[Record] = [*HISTORY, saved(4, "D", kind="safety"), restored(2)]
    assert commands(undone) == ["#1"]
    assert commands([*undone, saved(2, "B", "#5", reused=True)]) == ["#1", "#5"]
    assert commands([*undone, restored(4)]) == ["#1", "#3", "#4"]
    assert commands([*undone, restored(1)]) == []


def test_a_restore_of_some_paths_takes_no_command_back() -> None:
    assert commands([*HISTORY, saved(4, "D", kind="safety"), restored(2, ("src",))]) == ["#1", "#3", "#4"]


def test_a_target_that_nobody_recorded_changes_nothing() -> None:
    assert commands([*HISTORY, restored(9)]) == ["#1", "#3", "#4"]
