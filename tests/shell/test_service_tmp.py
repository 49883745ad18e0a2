"""The private /tmp of confined shells: told, shared by the shells of a session, and removed with the session."""

import shutil
from pathlib import Path

import pytest

from shiftlog.shell.temps import SessionTemps, missing_path
from tests.shell.rig import CLIENT, ShellRig, shell_rig, until

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is missing")


def _temp(rig: ShellRig) -> Path:
    [session_id] = rig.shells.opener.temps.sessions()
    return Path(rig.shells.opener.temps.open(session_id))


@needs_bwrap
async def test_a_confined_shell_says_that_its_tmp_is_private(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        opened = await rig.open(workspace=str(rig.place))
        assert opened["sandbox"] == "workspace-write"
        assert "private" in opened["tmp_note"]
        assert "when the session is closed" in opened["tmp_note"]
        assert "tmp_note" not in await rig.open(sandbox="full-access")


@needs_bwrap
async def test_a_path_of_the_machines_tmp_that_is_not_found_is_explained(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        await rig.open(workspace=str(rig.place))
        for text in ("/tmp/some-venv/bin/python -V", "cat /var/tmp/notes.txt", "cd /tmp/sub/dir"):
            failed = await rig.run(text)
            assert failed["exit_code"] != 0
            assert "private" in failed["hint"], text
        assert (await rig.run("cat missing"))["hint"] is None
        assert (await rig.run(f"cat {rig.place}/missing"))["hint"] is None, "the workspace is not private"
        await rig.run("echo 'echo out; exit 3' >/tmp/own")
        assert (await rig.run("bash /tmp/own; ls /tmp/own/x"))["hint"] is not None
        assert (await rig.run("echo /tmp/own failed >&2; false"))["hint"] is None, "that one is there"


@needs_bwrap
async def test_the_shells_of_a_session_share_one_tmp(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        session = (await rig.app.sessions.open_session({"agent": "Agent", "title": "t"}, CLIENT))["session_id"]
        await rig.open(workspace=str(rig.place), session_id=session)
        await rig.run("echo kept >/tmp/work; echo $TMPDIR >/tmp/name")
        await rig.close()
        await rig.open(workspace=str(rig.place), session_id=session)
        assert await rig.out("cat /tmp/work /var/tmp/work; [ $TMPDIR = $(cat /tmp/name) ] && echo same") == (
            "kept\nkept\nsame"
        )
        await rig.open(sandbox="read-only", session_id=session)
        assert await rig.out("cat /tmp/work") == "kept"
        other = (await rig.app.sessions.open_session({"agent": "Agent", "title": "u"}, CLIENT))["session_id"]
        await rig.open(workspace=str(rig.place), session_id=other)
        assert await rig.out("ls /tmp/work || echo none") == "none", "another session has another one"


@needs_bwrap
async def test_the_tmp_goes_with_its_session_and_not_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shiftlog.shell.service.FLUSH_S", 0.01)
    async with shell_rig(tmp_path, shell=False) as rig:
        session = (await rig.app.sessions.open_session({"agent": "Agent", "title": "t"}, CLIENT))["session_id"]
        await rig.open(workspace=str(rig.place), session_id=session)
        await rig.run("echo kept >/tmp/work")
        kept = _temp(rig)
    assert (kept / "work").exists(), "the session is open, and a later shell of it finds its work"
    async with shell_rig(tmp_path, shell=False) as rig:
        await rig.open(workspace=str(rig.place), session_id=session)
        assert await rig.out("cat /tmp/work") == "kept"
        await rig.app.continuity.close_session({"session_id": session, "reason": "completed"}, CLIENT)
        assert (kept / "work").exists(), "a live shell keeps it"
        await rig.close()
        await until(lambda: not kept.exists())
        assert rig.shells.opener.temps.sessions() == []


@needs_bwrap
async def test_the_tmp_of_an_implicit_session_goes_with_its_last_shell(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        await rig.open(workspace=str(rig.place))
        kept = _temp(rig)
        assert kept.is_dir()
        await rig.close()
        await until(lambda: not kept.exists())
        await rig.open(workspace=str(rig.place))
        kept = _temp(rig)
    assert not kept.exists(), "the session ended with the server, too"


def test_a_remembered_directory_that_is_not_ours_is_not_used_or_removed(tmp_path: Path) -> None:
    temps, other = SessionTemps(tmp_path / "temps"), tmp_path / "other"
    other.mkdir()
    (other / "file").touch()
    made = temps.open("Agent-1")
    assert Path(made).stat().st_mode & 0o777 == 0o700
    Path(made).rmdir()
    again = temps.open("Agent-1")
    assert again != made
    Path(again).rmdir()
    Path(again).symlink_to(other)
    temps.remove("Agent-1")
    assert (other / "file").exists()
    Path(again).unlink()
    (tmp_path / "temps" / "Agent-2").symlink_to(other)
    temps.remove("Agent-2")
    assert (other / "file").exists()
    assert temps.sessions() == []


def test_only_paths_below_tmp_that_are_missing_inside_are_named(tmp_path: Path) -> None:
    temp = str(tmp_path)
    (tmp_path / "there").touch()
    assert missing_path(temp, "cat: /tmp/there: Is a directory", ()) is None
    assert missing_path(temp, "cat: '/tmp/gone': No such file", ()) == "/tmp/gone"
    assert missing_path(temp, "cat: /tmp/ws/a: No such file", ("/tmp/ws",)) is None
    assert missing_path(temp, "cat: /home/tmp/gone: No such file", ()) is None
