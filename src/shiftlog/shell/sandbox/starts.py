"""What broker and service say to each other about program starts: the judge asked, the rules given, the record kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

PROGRAMS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class StartedFile:
    """The file behind a start, looked at through an open descriptor: nobody swapped it since its name was read.

    `interpreter` are the words of its `#!` line; `copy_of` is the named program whose link or copy it is.
    """

    path: str
    real: str
    inode: tuple[int, int]
    interpreter: tuple[str, ...]
    copy_of: str | None


class StartJudge(Protocol):
    """Decides about one program start, after all expansion."""

    def judge_start(
        self, path: str, argv: Sequence[str], cwd: str, file: StartedFile
    ) -> tuple[bool, str, str, str | None]:
        """Return whether the program may start, the verdict's word, the program's name and the reason.

        `path` is one of the file's names, or the name of the applet that it would be.
        """
        ...

    def permit(self, entries: Sequence[str]) -> None:
        """Let starts that these `ask` entries match pass until told otherwise; a person approved them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSpec:
    """How the supervisor makes its judge: `factory` (`module:callable`) is called with `options`, which are JSON."""

    factory: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRules:
    """What the broker needs besides the judge. All paths are real paths.

    `named` are the files of programs that rules speak of, so that links and copies are known for what they are;
    `denied` of them are denied whole. `interpreters` may start as the interpreter of a permitted script. `writable`
    is where chmod and its like may act; None leaves those calls alone. `lists` says that some program is denied.
    `helper` is how the engine's own terminal helper begins its command line; it may start, and become the shell.
    """

    shell: str
    helper: tuple[str, ...] = ()
    lists: bool = False
    named: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    writable: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStart:
    """One program that a shell's descendant asked to start, and the answer; `parents` lead up to the shell."""

    pid: int
    parents: tuple[int, ...]
    path: str
    argv: tuple[str, ...]
    argv_total: int
    verdict: str
    program: str
    reason: str | None
