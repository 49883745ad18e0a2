"""Judges a command together with the files that it runs as code, where nothing but text is checked.

The files are read over the shell's own connection: a bounded number, a bounded part of each, in bounded time. They may
change before they run, and a file that is not read is `unjudged`, which the operator allows, asks about or refuses.
"""

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shiftlog.guard.policy.code_content import ContentJudgement, judge_content
from shiftlog.guard.policy.code_files import CodeFile
from shiftlog.guard.policy.doubts.copies import copyable
from shiftlog.guard.policy.judge import Judge
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import PolicyUndecidable
from shiftlog.shell.engine.protocol import draw_token, quote
from shiftlog.shell.guard import CommandJudgement, shown_ask
from shiftlog.shell.remote.shell import RemoteShell
from shiftlog.shell.state import Shell

READ_BYTES = 128 * 1024
READ_S = 3.0
ROUNDS = 3  # scripts that start scripts
UNJUDGED = "unjudged code"


@dataclass(slots=True)
class _Findings:
    """The additions of a command's files to the judgement of its text."""

    refusal: ShiftlogError | None = None
    asks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    unjudged: str | None = None
    following: list[CodeFile] = field(default_factory=list[CodeFile])


async def judge(shell: Shell, text: str, behind: CommandJudgement | None = None) -> CommandJudgement:
    """Judge a command's text, and the files that it runs; with `behind`, as if that other command had ended."""
    judgement = shell.guard.judge(text, shell.cwd, behind)
    if judgement.refusal is not None or judgement.syntax is not None or not shell.guard.reads_files:
        return judgement
    found = _Findings(unjudged=judgement.runs_code)
    files: Sequence[CodeFile] = judgement.files
    for _ in range(ROUNDS):
        if not files or found.refusal is not None:
            break
        await _read_and_judge(shell, files, found)
        files, found.following = found.following, []
    if files and found.unjudged is None:
        found.unjudged = files[0].runner
    return _concluded(shell, judgement, found)


async def _read_and_judge(shell: Shell, files: Sequence[CodeFile], found: _Findings) -> None:
    contents = await _read(shell, files)
    for file, read in zip(files, contents, strict=True):
        if read is None:
            found.unjudged = found.unjudged or (file.runner if file.expected else None)
            continue
        copied, content = read
        if copied:
            found.refusal = found.refusal or _undecidable(f"'{file.name}', a copy of '{copied}',", file.name)
            continue
        judged = judge_content(
            shell.guard.judge_of, file, content[:READ_BYTES], shell.cwd, whole=len(content) <= READ_BYTES
        )
        found.refusal = found.refusal or _refusal(file, judged)
        found.asks += [shown_ask(ask) for ask in judged.asks]
        found.following += judged.files
        if not judged.judged:
            found.unjudged = found.unjudged or file.runner


def _refusal(file: CodeFile, judged: ContentJudgement) -> ShiftlogError | None:
    if judged.violations:
        return judged.violations[0].as_error()
    if judged.named is not None:
        return _undecidable(f"code in '{file.name}' with '{judged.named}'", judged.named)
    return None


def _concluded(shell: Shell, judgement: CommandJudgement, found: _Findings) -> CommandJudgement:
    refusal, asks, mode = found.refusal, [*judgement.asks, *found.asks], shell.guard.unjudged
    if refusal is None and found.unjudged is not None and mode == "refuse":
        refusal = _undecidable(f"the code that '{found.unjudged}' runs", found.unjudged)
    elif found.unjudged is not None and mode == "ask":
        message = f"needs approval: '{found.unjudged}' runs code that cannot be judged"
        asks.append({"entry": UNJUDGED, "program": found.unjudged, "message": message, "line": 1})
    if refusal is not None:
        verdict = "undecidable" if isinstance(refusal, PolicyUndecidable) else "denied"
        return replace(judgement, verdict=verdict, refusal=refusal)
    return replace(judgement, verdict="asked" if asks else judgement.verdict, asks=asks)


def _undecidable(what: str, text: str) -> PolicyUndecidable:
    details = {"what": what, "text": text, "line": 1, "column": 1}
    return PolicyUndecidable(f"blocked by policy: {what} cannot be decided before it runs", details=details)


async def _read(shell: Shell, files: Sequence[CodeFile]) -> list[tuple[str, bytes] | None]:
    """Return for each file the program that it is a copy of, and its beginning, one byte more than is judged."""
    judge = shell.guard.judge_of
    if not isinstance(shell.live, RemoteShell):
        return [_read_here(judge, file.paths) for file in files]
    token = draw_token()
    script = "".join(_reading(token, file, copyable(judge.rules)) for file in files)
    with contextlib.suppress(TimeoutError, ConnectionError):
        answer = await shell.live.control.ask(f"{{ {script}}} 2>/dev/null", READ_S)
        parts = answer.split(token.encode())[1:]
        if len(parts) == len(files):
            return [_parted(part[1:]) if part.startswith(b"+") else None for part in parts]
    return [None] * len(files)


def _parted(answer: bytes) -> tuple[str, bytes]:
    copied, _, content = answer.partition(b"\n")
    return copied.decode(errors="replace"), content


def _reading(token: str, file: CodeFile, programs: Sequence[str]) -> str:
    """Return the part of a script that prints the token, the program that a file is a copy of, and the file."""
    compared = programs if file.language == "any" else ()
    tests = [
        f"if [ -f {_word(path)} ] && [ -r {_word(path)} ]; then printf +; {_comparing(_word(path), compared)}echo; "
        f"head -c {READ_BYTES + 1} <{_word(path)}; "
        for path in file.paths
    ]
    return f"printf %s {token}; " + "el".join(tests) + "fi; "


def _comparing(path: str, programs: Sequence[str]) -> str:
    """Return the part of a script that prints the first of these programs whose file or content a path is."""
    if not programs:
        return ""
    return (
        f'for n in {" ".join(map(quote, programs))}; do q=$(command -v -- "$n") && '
        f'{{ [ "$q" -ef {path} ] || cmp -s -- "$q" {path}; }} && {{ printf %s "$n"; break; }}; done; '
    )


def _word(path: str) -> str:
    return '"$HOME"' + quote(path[1:]) if path.startswith("~/") else quote(path)


def _read_here(judge: Judge, paths: tuple[str, ...]) -> tuple[str, bytes] | None:
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            fd = os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)  # noqa: PTH111
            with os.fdopen(fd, "rb") as file:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    return judge.copied(path) or "", file.read(READ_BYTES + 1)
    return None
