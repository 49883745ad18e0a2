"""What guards a shell, as the service sees it: a judge of command text, and what else holds while it runs.

The policy itself is the guard's, the kernel layer the sandbox's; `NoGuard` is what a shell has without either.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from shiftlog.guard.policy.found import Definitions
from shiftlog.model.errors import ShiftlogError
from shiftlog.shell.engine.local import Launcher

Verdict = Literal["allowed", "denied", "asked", "deferred", "undecidable", "not_checked"]
Enforcement = Literal["none", "syntax", "kernel", "syntax+kernel"]


_TIGHT_TO_LOOSE = ("read-only", "workspace-write", "full-access")


def looser(mode: str | None, than: str) -> bool:
    """Tell whether a sandbox mode permits more than another."""
    return _TIGHT_TO_LOOSE.index(mode or "full-access") > _TIGHT_TO_LOOSE.index(than)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxFault:
    """Where a command text is broken."""

    line: int
    column: int
    message: str

    @property
    def text(self) -> str:
        """Return it as it stands in stderr."""
        return f"syntax error: line {self.line}, column {self.column}: {self.message}"

    def as_dict(self) -> dict[str, object]:
        """Return it as results show it."""
        return {"line": self.line, "column": self.column, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the guard says of a command text; `refusal` is raised instead of running it.

    It holds for one directory and for what the shell had defined `before`; `after` is what it has once the command ran
    to its end, `after_stop` what it has wherever the command broke off.
    """

    verdict: Verdict
    refusal: ShiftlogError | None = None
    syntax: SyntaxFault | None = None
    read_only: bool = False
    learned: frozenset[str] = frozenset()
    asks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    cwd: str = ""
    before: Definitions = field(default_factory=Definitions)
    after: Definitions = field(default_factory=Definitions)
    after_stop: Definitions = field(default_factory=Definitions)


class ShellGuard(Protocol):
    """The guard of one shell."""

    @property
    def sandbox(self) -> str: ...

    @property
    def enforcement(self) -> Enforcement: ...

    @property
    def note(self) -> str | None: ...

    @property
    def launcher(self) -> Launcher | None:
        """What starts the shell inside the kernel layer, where it holds."""
        ...

    def judge(self, text: str, cwd: str, behind: Judged | None = None) -> Judged:
        """Judge a command before it runs; one that will run `behind` another as if that had run to its end."""
        ...

    def still_holds(self, judged: Judged, cwd: str) -> bool:
        """Tell whether nothing that a judgement rests on has changed since."""
        ...

    def ran(self, judged: Judged, *, to_its_end: bool) -> None:
        """Learn what a command that ran in the shell itself defined: functions and aliases count from then on."""
        ...

    def command_began(self, command_id: str, permitted: list[str]) -> None:
        """Learn to which command the next program starts belong, and which `ask` entries were approved for it."""
        ...

    def copy_began(self, command_id: str, permitted: list[str]) -> None:
        """Learn that a command now runs in a copy of the shell, which keeps what was approved for it."""
        ...

    def watch(self, roots: Callable[[], Mapping[int, str]]) -> None:
        """Learn how to ask for the processes of commands that run in a copy of the shell, and their ids."""
        ...

    def programs(self, command_id: str) -> list[dict[str, Any]] | None:
        """Return the program starts of a command that the kernel layer saw, None where it does not watch."""
        ...

    def programs_total(self, command_id: str) -> int:
        """Count all program starts of a command."""
        ...

    def forget(self, command_id: str) -> None:
        """Let go of a command whose starts are recorded."""
        ...

    async def close(self) -> None:
        """Let go of everything that held the shell."""
        ...


@dataclass(slots=True, kw_only=True)
class NoGuard:
    """No rule is set: everything runs, and nothing is recorded of programs."""

    sandbox: str = "full-access"
    enforcement: Enforcement = "none"
    note: str | None = None
    launcher: Launcher | None = None

    def judge(self, text: str, cwd: str, behind: Judged | None = None) -> Judged:
        """Let the shell itself find what is wrong with a text."""
        return Judged(verdict="not_checked")

    def still_holds(self, judged: Judged, cwd: str) -> bool:
        """Nothing depends on it."""
        return True

    def ran(self, judged: Judged, *, to_its_end: bool) -> None:
        """Nothing depends on it."""

    def command_began(self, command_id: str, permitted: list[str]) -> None:
        """Nothing depends on it."""

    def copy_began(self, command_id: str, permitted: list[str]) -> None:
        """Nothing depends on it."""

    def watch(self, roots: Callable[[], Mapping[int, str]]) -> None:
        """Nothing depends on it."""

    def programs(self, command_id: str) -> list[dict[str, Any]] | None:
        """Nobody watches."""
        return None

    def programs_total(self, command_id: str) -> int:
        """Nobody watches."""
        return 0

    def forget(self, command_id: str) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing was held."""
