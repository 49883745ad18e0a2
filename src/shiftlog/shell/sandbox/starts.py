"""Types for program starts, shared by broker and service: the judge, its rules, and the record. Data only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

PROGRAMS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class StartedFile:
    """The file behind a start, read through an open descriptor, so that it cannot be swapped meanwhile.

    `interpreter` holds the words of its `#!` line; `copy_of` is the named program that it links to or copies.
    """

    path: str
    real: str
    inode: tuple[int, int]
    interpreter: tuple[str, ...]
    copy_of: str | None


class ProgramJudge(Protocol):
    """Decides about one program start, after all expansion."""

    def judge_start(
        self, path: str, argv: Sequence[str], cwd: str, file: StartedFile
    ) -> tuple[bool, str, str, str | None]:
        """Return whether the program may start, the verdict, the program's name and the reason.

        `path` is one of the file's names, or the name of the applet that it would run.
        """
        ...

    def permit(self, entries: Sequence[str]) -> None:
        """Let starts that match these `ask` entries pass until the next call; a person approved them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSpec:
    """The factory of the supervisor's judge: it calls `factory` (`module:callable`) with `options`, which are JSON."""

    factory: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRules:
    """The settings that the broker needs besides the judge. All paths are real paths.

    `named` are the files of programs in rules, so that links and copies are recognised; `denied` ones are denied
    completely. `interpreters` may start as the interpreter of a permitted script. `writable` is where chmod and similar
    calls may act, `reachable` where sockets may be connected to; None leaves those calls alone. `http_port` is the file
    that names the port at which the daemon serves people: it may not be connected to either. `compares` ends a
    process that loaded another program than the one that was judged. `lists` says that some program is denied. `helper`
    is the beginning of the command line of the engine's own terminal helper, which may start and become the shell.
    """

    shell: str
    helper: tuple[str, ...] = ()
    lists: bool = False
    named: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    writable: tuple[str, ...] | None = None
    reachable: tuple[str, ...] | None = None
    http_port: str = ""
    compares: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStart:
    """One program start requested in a shell's process tree, and the answer; `parents` lead up to the shell."""

    pid: int
    parents: tuple[int, ...]
    path: str
    argv: tuple[str, ...]
    argv_total: int
    verdict: str
    program: str
    reason: str | None
