"""The place where programs of one local shell ask a person: a script for `SUDO_ASKPASS`, and the socket behind it."""

import array
import asyncio
import contextlib
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio

from shiftlog.model.errors import ShiftlogError, trouble
from shiftlog.shell.askpass import helper
from shiftlog.shell.askpass.asker import Asker, AskerRefused, find_asker
from shiftlog.shell.askpass.prompts import PasswordPrompt, PasswordPrompts
from shiftlog.shell.engine.protocol import quote
from shiftlog.shell.engine.reaper import remove_tree

AVAILABLE = sys.platform.startswith("linux")
SOCKET, SCRIPT = "s", "askpass"
# Git has its own question for a user's name, which is left as it is.
_VARIABLES = ("SUDO_ASKPASS", "SSH_ASKPASS")
_OTHERS = {"SSH_ASKPASS_REQUIRE": "force", "GIT_ASKPASS": ""}
_CREDENTIALS = struct.Struct("3i")
_MESSAGE_BYTES = 8192
_AT_ONCE = 8
_ASKING_S = 5.0
_AGAIN_S = 0.5
# Answers that are no secrets; to mask these words in all output would only hide it.
_WORDS = frozenset({"yes", "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingShell:
    """The parts of a shell that a prompt needs: its names, its masking, and how it learns a value to mask."""

    shell_id: str
    session_id: str
    mask: Callable[[str], str]
    learn: Callable[[frozenset[str]], None]


class AskpassDoor:
    """The script and the socket of one shell; `close` removes both."""

    def __init__(self, base: str | None, adopted: tuple[str, int] | None = None) -> None:
        self._refused: tuple[int, str] | None = None
        self._is_left = False
        self._room = asyncio.Semaphore(_AT_ONCE)
        if adopted is not None:  # directory and socket of an earlier server
            self.directory, self._socket = adopted[0], socket.socket(fileno=adopted[1])
            return
        self.directory = tempfile.mkdtemp(prefix="shiftlog-ask-", dir=base)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        try:
            self._fill()
            # Inherited by accepted connections, so that even the first message tells its sender.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.listen(_AT_ONCE)
        except BaseException:
            self.close()
            raise

    @property
    def descriptor(self) -> int:
        """The socket where programs ask."""
        return self._socket.fileno()

    def _fill(self) -> None:
        """Bind the socket and write the script below the opened directory.

        The path itself may be too long for an address, and other shells of the session can replace the directory.
        """
        opened = os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._socket.bind(f"/proc/self/fd/{opened}/{SOCKET}")
            program = [os.path.realpath(sys.executable), "-I", "-S", str(Path(helper.__file__).resolve())]
            words = " ".join(map(quote, (*program, f"{self.directory}/{SOCKET}")))
            script = os.open(SCRIPT, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700, dir_fd=opened)
            with os.fdopen(script, "w") as file:
                file.write(f'#!/bin/sh\nexec {words} "$@"\n')
        finally:
            os.close(opened)

    def leave(self) -> None:
        """Leave script and socket to the next server."""
        self._is_left = True

    def variables(self) -> dict[str, str]:
        """Return the variables by which sudo and ssh find the script."""
        return {**dict.fromkeys(_VARIABLES, f"{self.directory}/{SCRIPT}"), **_OTHERS}

    def close(self) -> None:
        """Remove the script and the socket."""
        self._socket.close()
        remove_tree(self.directory)

    async def serve(self, shell: AskingShell, prompts: PasswordPrompts) -> None:
        """Put the questions of the shell's programs to a person, until the shell is over."""
        try:
            async with anyio.create_task_group() as asking:
                while True:
                    await self._room.acquire()
                    asking.start_soon(self._answer, await self._next(), shell, prompts)
        finally:
            if not self._is_left:
                self.close()

    async def _next(self) -> socket.socket:
        """Return the connection of the next program that asks; without descriptors the programs wait."""
        while True:
            try:
                line, _ = await asyncio.get_running_loop().sock_accept(self._socket)
            except OSError as error:
                if trouble(error) is None:
                    raise
                await anyio.sleep(_AGAIN_S)
            else:
                return line

    async def _answer(self, line: socket.socket, shell: AskingShell, prompts: PasswordPrompts) -> None:
        with line, contextlib.ExitStack() as opened:
            try:
                with anyio.fail_after(_ASKING_S):
                    await anyio.wait_readable(line)
                text, pipe, sender = _read(line)
                opened.callback(os.close, pipe)
                said = await self._ask(line, shell, prompts, text, pipe, sender)
                line.send(said.encode("utf-8", "replace")[:_MESSAGE_BYTES])
            except (OSError, TimeoutError, ValueError):
                pass  # the program that asked is gone, or was none of ours
            finally:
                self._room.release()

    async def _ask(
        self,
        line: socket.socket,
        shell: AskingShell,
        prompts: PasswordPrompts,
        text: str,
        pipe: int,
        sender: int,
    ) -> str:
        """Ask, write the answer into the pipe, and return what the helper is told."""
        facts = os.fstat(pipe)
        try:
            asker = await asyncio.to_thread(find_asker, sender, facts)
            self._check_patience(asker)
            prompt = await prompts.begin(
                shell.shell_id,
                shell.session_id,
                program=shell.mask(asker.program),
                command=shell.mask(asker.command),
                text=shell.mask(text),
            )
            line.send(f"asked waiting for a person: shiftlog approve {prompt.approval_id}".encode())
            answer = await _unless_gone(line, prompts, prompt)
            if answer is None:
                self._refused = (asker.pid, asker.started)
                return f"refused the question was {prompt.state}"
            if answer.lower() not in _WORDS:
                shell.learn(frozenset({answer}))
            # The pipe may have got another reader while the person typed.
            if await asyncio.to_thread(find_asker, sender, facts) != asker:
                raise AskerRefused("another program took the question over")
            _write(pipe, answer)
        except (AskerRefused, ShiftlogError) as refusal:
            return f"refused {refusal}"
        return "answered"

    def _check_patience(self, asker: Asker) -> None:
        """Refuse a program whose last question got no answer: ssh asks three times."""
        if self._refused == (asker.pid, asker.started):
            raise AskerRefused("its last question got no answer")


async def _unless_gone(line: socket.socket, prompts: PasswordPrompts, prompt: PasswordPrompt) -> str | None:
    """Wait for the answer, but no longer than the program that asked."""

    async def watch() -> None:
        await anyio.wait_readable(line)
        waiting.cancel_scope.cancel()

    answer = None
    async with anyio.create_task_group() as waiting:
        waiting.start_soon(watch)
        answer = await prompts.wait(prompt)
        waiting.cancel_scope.cancel()
    return answer


def _read(line: socket.socket) -> tuple[str, int, int]:
    """Return a helper's question, the descriptor of its standard output, and its pid as the kernel tells it."""
    space = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(4 * 8)
    data, extra, _, _ = line.recvmsg(_MESSAGE_BYTES, space, socket.MSG_CMSG_CLOEXEC)
    pipes = array.array("i")
    sender = 0
    for level, kind, content in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            pipes.frombytes(content[: len(content) - len(content) % pipes.itemsize])
        elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            sender = _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0]
    for surplus in pipes[1:]:
        os.close(surplus)
    if not pipes or not sender:
        for pipe in pipes[:1]:
            os.close(pipe)
        raise ValueError("not a question")
    return data.decode("utf-8", "surrogateescape"), pipes[0], sender


def _write(pipe: int, answer: str) -> None:
    os.set_blocking(pipe, False)
    os.write(pipe, f"{answer}\n".encode())
