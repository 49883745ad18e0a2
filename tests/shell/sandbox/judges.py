"""A judge for tests that knows names only, so that what the broker itself recognises can be told apart."""

from collections.abc import Sequence
from pathlib import Path

from shiftlog.shell.sandbox.starts import StartedFile


class NameJudge:
    """Denies by base name, or allows only listed base names; `git push --force` style entries match arguments."""

    def __init__(self, *, deny: Sequence[str] = (), allow: Sequence[str] | None = None) -> None:
        self._deny = [entry.split() for entry in deny]
        self._allow = None if allow is None else set(allow)

    def permit(self, entries: Sequence[str]) -> None:
        """Nothing is asked."""

    def judge_start(
        self, path: str, argv: Sequence[str], cwd: str, file: StartedFile
    ) -> tuple[bool, str, str, str | None]:
        """Judge by name and arguments."""
        name = Path(path).name
        for first, *rest in self._deny:
            if name == first and all(word in argv[1:] for word in rest):
                return False, "denied", name, f"'{name}' is denylisted"
        if self._allow is not None and name not in self._allow:
            return False, "denied", name, f"'{name}' not in allowlist"
        return True, "allowed", name, None


class BrokenJudge:
    """A judge that cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no such policy")


class FailingJudge(NameJudge):
    """A judge with a defect for one program."""

    def judge_start(
        self, path: str, argv: Sequence[str], cwd: str, file: StartedFile
    ) -> tuple[bool, str, str, str | None]:
        """Fail for `true`."""
        if path.endswith("/true"):
            raise KeyError(path)
        return super().judge_start(path, argv, cwd, file)
