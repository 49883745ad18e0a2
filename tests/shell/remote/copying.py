"""Checks of file transfers that hold on every remote target."""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.shell_errors import TransferFailed
from shiftlog.shell.transfers import TransferCount
from tests.shell.rig import ShellRig, until

Check = Callable[[ShellRig, Path, str], Awaitable[None]]
PERSON = Caller(client_id="person-one", face="cli", operator=True, inside=False, client_name="person")
CONTENT = os.urandom(3_000_017)


async def put(rig: ShellRig, local: Path, remote: str, caller: Caller = PERSON) -> dict[str, Any]:
    """Copy a file to the target of the rig's shell."""
    return await rig.shells.transfers.put(rig.shell_id, str(local), remote, caller, TransferCount())


async def get(rig: ShellRig, remote: str, local: Path, caller: Caller = PERSON) -> dict[str, Any]:
    """Copy a file from the target of the rig's shell."""
    return await rig.shells.transfers.get(rig.shell_id, remote, str(local), caller, TransferCount())


async def check_round_trip(rig: ShellRig, folder: Path, remote: str) -> None:
    """Send a file and fetch it again: the same bytes, recorded with size and digest, and nothing beside."""
    source, back = folder / "a file", folder / "back"
    source.write_bytes(CONTENT)
    source.chmod(0o751)
    sha256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    await rig.run(f"mkdir -p '{remote}'; cd '{remote}'")
    sent = (await put(rig, source, "."))["transfer"]
    assert sent == {
        "direction": "put",
        "local": str(source),
        "remote": f"{remote}/a file",
        "bytes": len(CONTENT),
        "sha256": sha256,
        "compared": "digest",
    }
    assert await rig.out("stat -c %a 'a file'; ls -A") == "751\na file"
    await put(rig, source, f"{remote}/-odd 'name'\n")
    fetched = (await get(rig, "-odd 'name'\n", back))["transfer"]
    assert (fetched["bytes"], fetched["sha256"]) == (len(CONTENT), sha256)
    assert back.read_bytes() == CONTENT
    assert back.stat().st_mode & 0o777 == 0o751
    ended = [entry.facts for entry in await rig.entries(Kind.COMMAND_FINISHED) if entry.facts.get("transfer")]
    assert [(one["state"], one["exit_code"], one["transfer"]["sha256"]) for one in ended] == [
        ("finished", 0, sha256)
    ] * 3
    started = [entry.facts["command"] for entry in await rig.entries(Kind.COMMAND_STARTED)]
    assert f"shiftlog put {source} ." in started


async def check_replacing(rig: ShellRig, folder: Path, remote: str) -> None:
    """A file that is there is replaced whole and keeps its permissions, a link is replaced and not followed."""
    source = folder / "new"
    source.write_text("new text")
    await rig.run(f"mkdir -p {remote}; cd {remote}; echo old > f; chmod 600 f; echo kept > target; ln -s target link")
    await put(rig, source, "f")
    await put(rig, source, "link")
    assert await rig.out("cat f; stat -c %a f; cat target; test -L link || cat link") == "new text600\nkept\nnew text"
    local, kept = folder / "local", folder / "kept"
    kept.write_text("kept")
    local.symlink_to(kept)
    await get(rig, "f", local)
    assert (kept.read_text(), local.read_text(), local.is_symlink()) == ("kept", "new text", False)
    (folder / "empty").touch()
    await put(rig, folder / "empty", "empty")
    assert (await get(rig, "empty", folder / "nothing"))["transfer"]["bytes"] == 0
    assert (folder / "nothing").read_bytes() == b""


async def check_faults(rig: ShellRig, folder: Path, remote: str) -> None:
    """What cannot be copied is named with the reason, recorded, and changes nothing."""
    source = folder / "f"
    source.write_text("text")
    await rig.run(f"mkdir -p {remote}/sub; cd {remote}; mkfifo pipe")
    for path, why in (("missing/f", "its directory does not exist"), (f"{remote}/none/", "its directory")):
        with pytest.raises(TransferFailed, match=why):
            await put(rig, source, path)
    for path, why in (("sub", "a directory"), ("none", "does not exist"), ("pipe", "regular file")):
        with pytest.raises(TransferFailed, match=why):
            await get(rig, path, folder / "out")
    os.mkfifo(folder / "pipe")
    for local, why in (
        (folder / "none", "does not exist"),
        (folder, "it is a directory"),
        (folder / "pipe", "regular"),
    ):
        with pytest.raises(TransferFailed, match=why):
            await put(rig, local, "f")
    assert not (folder / "out").exists()
    assert await rig.out("ls -A") == "pipe\nsub"
    assert [name.name for name in folder.iterdir() if name.name.startswith(".shiftlog")] == []
    failed = [entry.facts for entry in await rig.entries(Kind.COMMAND_FINISHED) if "transfer" in entry.facts]
    assert {one["exit_code"] for one in failed} == {1}
    assert "does not exist there" in failed[0]["transfer"]["error"]


async def check_cancelling(rig: ShellRig, folder: Path, remote: str) -> None:
    """A transfer that is cancelled leaves what was there, on both sides, and the shell goes on."""
    source = folder / "big"
    with source.open("wb") as file:
        file.truncate(1 << 30)
    await rig.run(f"mkdir -p {remote}; cd {remote}; echo old > f")
    count = TransferCount()
    sending = asyncio.create_task(rig.shells.transfers.put(rig.shell_id, str(source), "f", PERSON, count))
    await until(lambda: count.done, 60)
    running = rig.shells.registry.shells[rig.shell_id].running
    assert [command.text for command in running] == [f"shiftlog put {source} f"]
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    left = ""
    for _ in range(100):  # the target notices the end by itself
        left = await rig.out("ls -A; cat f")
        if left == "f\nold":
            break
    assert left == "f\nold"
    await rig.run("truncate -s 1G big 2>/dev/null || dd if=/dev/zero of=big bs=1M count=300 2>/dev/null")
    count = TransferCount()
    fetching = asyncio.create_task(rig.shells.transfers.get(rig.shell_id, "big", str(folder / "out"), PERSON, count))
    await until(lambda: count.done, 60)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert [one.name for one in folder.iterdir() if one.name.startswith((".shiftlog", "out"))] == []
    states = [entry.facts["state"] for entry in await rig.entries(Kind.COMMAND_FINISHED) if "transfer" in entry.facts]
    assert states == ["cancelled", "cancelled"]
    assert await rig.out("echo on; rm -f big") == "on"
