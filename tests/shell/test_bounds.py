"""What a caller inside a shell may ask for: nothing that its own shell does not permit."""

import pytest

from shiftlog.model.shell_errors import SandboxNotAllowed
from shiftlog.shell.bounds import OF_AN_ORPHAN, ShellBounds, asked_bounds, check

HELD = ShellBounds(mode="workspace-write", workspace="/work/project", deny=frozenset({"curl"}))
LISTED = ShellBounds(allow=frozenset({"ls", "cat"}))
FITTING = {"sandbox": "workspace-write", "workspace": "/work/project", "deny": ["curl", "wget"]}


@pytest.mark.parametrize(
    "values", [FITTING, {**FITTING, "workspace": "/work/project/part"}, {"sandbox": "read-only", "deny": ["curl"]}]
)
def test_a_shell_of_the_same_or_tighter_bounds_may_be_opened(values: dict[str, object]) -> None:
    check(HELD, asked_bounds(values))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sandbox": "full-access"}, "sandbox 'full-access' is not permitted"),
        ({"sandbox": None}, "sandbox 'full-access' is not permitted"),
        ({"workspace": "/work"}, "outside of the calling shell's workspace"),
        ({"workspace": "/work/project2"}, "outside of the calling shell's workspace"),
        ({"deny": []}, "the calling shell denies 'curl'"),
    ],
)
def test_a_shell_that_permits_more_is_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(SandboxNotAllowed, match=why):
        check(HELD, asked_bounds({**FITTING, **changes}))


def test_an_allow_list_may_only_become_shorter() -> None:
    check(LISTED, asked_bounds({"allow": ["ls"]}))
    for allow in ([], ["ls", "rm"]):
        with pytest.raises(SandboxNotAllowed, match="allow list"):
            check(LISTED, asked_bounds({"allow": allow}))


def test_a_process_that_left_its_shell_gets_read_only_shells_alone() -> None:
    check(OF_AN_ORPHAN, asked_bounds({"sandbox": "read-only"}))
    for mode in ("workspace-write", "full-access", None):
        with pytest.raises(SandboxNotAllowed):
            check(OF_AN_ORPHAN, asked_bounds({"sandbox": mode, "workspace": "/work"}))
