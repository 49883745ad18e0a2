"""Password prompts of ssh programs in local shells reach a person, and nothing but the program that asked."""

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.shell.askpass.prompts import PasswordPrompts
from shiftlog.shell.sandbox.detect import detect
from tests.shell.rig import ShellRig, shell_rig, until

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
PHRASE = "quiet horse 92"
ASK = "ssh-keygen -y -f key"
CONFINED = pytest.mark.parametrize("sandbox", ["full-access", "workspace-write", "read-only"])


def _wrapped(script: str) -> str:
    """Return a command whose helper is a script of its own around the real one."""
    made = f"printf '#!/bin/bash\\n{script}\\n' \"$SSH_ASKPASS\" > w; chmod +x w"
    return f"{made}; SSH_ASKPASS=./w {ASK}"


@asynccontextmanager
async def asking(folder: Path, settings: str = "", **opening: Any) -> AsyncGenerator[ShellRig]:
    async with shell_rig(folder, settings=settings, shell=False) as rig:
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", PHRASE, "-f", str(rig.place / "key")]
        await anyio.run_process(made)
        await rig.open(**opening)
        yield rig


async def pending(rig: ShellRig) -> dict[str, Any]:
    await until(rig.shells.open_questions, 20)
    return rig.shells.open_questions()[0]


async def answered(rig: ShellRig, command: str, answer: str | None, **arguments: Any) -> dict[str, Any]:
    async def decide() -> None:
        question = await pending(rig)
        await rig.shells.prompts.decide(question["approval_id"], answer=answer, by="operator")

    deciding = asyncio.create_task(decide())
    result = await rig.run(command, **arguments)
    await deciding
    return result


@CONFINED
async def test_a_person_answers_a_prompt_and_the_answer_is_kept_nowhere(tmp_path: Path, sandbox: str) -> None:
    if sandbox != "full-access" and not detect().any_kernel:
        pytest.skip("this kernel can confine no shell")
    async with asking(tmp_path, sandbox=sandbox, **_workspace(tmp_path, sandbox)) as rig:
        result = await answered(rig, ASK, PHRASE)
        assert result["exit_code"] == 0, result
        assert result["stdout"].startswith("ssh-ed25519 ")
        echoed = await rig.run(f"echo said {PHRASE}")
        facts = [entry.facts for entry in await rig.entries(Kind.COMMAND_ASKED, Kind.COMMAND_DECIDED)]
        assert [(one["kind"], one["state"], one["program"]) for one in facts] == [
            ("prompt", "pending", "ssh-keygen"),
            ("prompt", "answered", "ssh-keygen"),
        ]
        assert "passphrase" in facts[0]["prompt"]
        assert facts[0]["command"] == ASK
        assert PHRASE not in echoed["stdout"]
    kept = b"".join(file.read_bytes() for file in rig.home.rglob("*") if file.is_file())
    assert PHRASE.encode() not in kept


def _workspace(folder: Path, sandbox: str) -> dict[str, Any]:
    return {} if sandbox == "full-access" else {"workspace": str(folder / "place"), "auto_snapshot": False}


async def test_a_declined_prompt_fails_at_once_and_the_program_is_not_asked_again(tmp_path: Path) -> None:
    async with asking(tmp_path) as rig:
        result = await answered(rig, ASK, None)
        assert result["exit_code"] != 0
        assert "the question was declined" in result["stderr"]
        decided = await rig.entries(Kind.COMMAND_DECIDED)
        assert [entry.facts["state"] for entry in decided] == ["declined"]
        assert len(await rig.entries(Kind.COMMAND_ASKED)) == 1


async def test_a_prompt_without_an_answer_expires_and_is_recorded(tmp_path: Path) -> None:
    async with asking(tmp_path) as rig:
        rig.shells.prompts = PasswordPrompts(rig.shells.journal, rig.shells.now, wait_s=0.2)
        await rig.open()
        result = await rig.run(ASK)
        assert "the question was expired" in result["stderr"]
        assert [entry.facts["state"] for entry in await rig.entries(Kind.COMMAND_DECIDED)] == ["expired"]
        assert rig.shells.open_questions() == []


async def test_a_program_that_ends_takes_its_question_along(tmp_path: Path) -> None:
    async with asking(tmp_path) as rig:
        running = await rig.run(ASK, background=True)
        await pending(rig)
        await rig.send(running["command_id"], signal="kill")
        await until(lambda: not rig.shells.open_questions())


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ('"$SSH_ASKPASS" password:', "may ask: sudo and ssh may"),
        ('x=$("$SSH_ASKPASS" password:); echo "$x"', "may ask: sudo and ssh may"),
        ("cp /usr/bin/ssh-keygen ssh; ./ssh -y -f key", "may ask: sudo and ssh may"),
        (_wrapped('exec "%s" "$@" > >(cat)'), "the answer would not go to ssh-keygen alone"),
        (_wrapped('sleep 9 <&1 & exec "%s" "$@"'), "sleep could read the answer"),
    ],
    ids=["helper itself", "substitution", "copied program", "another pipe", "a second reader"],
)
async def test_no_program_but_the_installed_ones_gets_an_answer(tmp_path: Path, command: str, why: str) -> None:
    async with asking(tmp_path) as rig:
        result = await rig.run(command)
        assert why in result["stderr"], result["stderr"]
        assert await rig.entries(Kind.COMMAND_ASKED) == []


async def test_the_operator_can_leave_prompts_to_fail(tmp_path: Path) -> None:
    async with asking(tmp_path, "[policy]\naskpass = false\n") as rig:
        assert await rig.out("env | grep -c ASKPASS") == "0"


async def test_nothing_is_left_when_the_shell_is_over(tmp_path: Path) -> None:
    async with asking(tmp_path) as rig:
        door = Path(await rig.out('dirname "$SUDO_ASKPASS"'))
        assert door.is_dir()
        await rig.close()
        await until(lambda: not door.exists())


@pytest.mark.parametrize("answer", ["two\nlines", "x" * 1025, "nul\0"])
async def test_an_answer_is_one_short_line(tmp_path: Path, answer: str) -> None:
    async with asking(tmp_path) as rig:
        running = await rig.run(ASK, background=True)
        question = await pending(rig)
        with pytest.raises(InvalidParameter, match="answer"):
            await rig.shells.prompts.decide(question["approval_id"], answer=answer, by="operator")
        await rig.send(running["command_id"], signal="kill")


async def test_a_sudo_that_finds_no_terminal_is_told_how_to_ask(tmp_path: Path) -> None:
    async with asking(tmp_path) as rig:
        said = "sudo: a terminal is required to read the password"
        result = await rig.run(f"echo '{said}' >&2; false")
        assert result["hint"] == "sudo -A lets a person type the password"
